from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('triage', '0020_lane_model'),
    ]

    operations = [
        migrations.AddField(
            model_name='person',
            name='saved_filters',
            field=models.JSONField(default=list),
        ),
    ]
