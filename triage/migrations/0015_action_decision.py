"""An action names the decision that stood when it was made; older ones name none."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("triage", "0014_estimated_lanes")]

    operations = [
        migrations.AddField("action", "decision", models.CharField(blank=True, default="", max_length=40), False),
    ]
