"""An action names the decision that stood when it was made; older ones name none."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("triage", "0013_objections_of_maintainers")]

    operations = [
        migrations.AddField("action", "decision", models.CharField(blank=True, default="", max_length=40), False),
    ]
