"""An estimated lane names the model whose scores its figures were counted on; older ones name none."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("triage", "0019_snoozes_and_lists")]

    operations = [
        migrations.AddField("estimatedlane", "model", models.CharField(blank=True, default="", max_length=200)),
    ]
