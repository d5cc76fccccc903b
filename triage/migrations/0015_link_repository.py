from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('triage', '0014_estimated_lanes'),
    ]

    operations = [
        migrations.AddField(
            model_name='contributorlink',
            name='repo_key',
            field=models.CharField(blank=True, default='', max_length=2048),
        ),
    ]
