from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('triage', '0031_push_session'),
    ]

    operations = [
        migrations.AddField(
            model_name='handledincident',
            name='conclusion',
            field=models.CharField(blank=True, default='', max_length=500),
        ),
    ]
