from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('triage', '0027_labels'),
    ]

    operations = [
        migrations.AddField(
            model_name='person',
            name='briefed_at',
            field=models.DateTimeField(null=True),
        ),
        migrations.AddField(
            model_name='person',
            name='briefed_before',
            field=models.DateTimeField(null=True),
        ),
    ]
