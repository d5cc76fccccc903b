from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('triage', '0015_action_decision'),
    ]

    operations = [
        migrations.AddField(
            model_name='contributorlink',
            name='repo_key',
            field=models.CharField(blank=True, default='', max_length=2048),
        ),
    ]
