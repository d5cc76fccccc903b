"""Actions that call a finding a false alarm or a problem again, and what is written for the forge."""

from django.db import migrations, models

KINDS = [
    ("approve", "Approve"),
    ("pull_for_review", "Pull For Review"),
    ("release", "Release"),
    ("outcome", "Outcome"),
    ("note", "Note"),
    ("comment", "Comment"),
    ("request_changes", "Request Changes"),
    ("close", "Close"),
    ("dismiss_finding", "Dismiss Finding"),
    ("restore_finding", "Restore Finding"),
]


class Migration(migrations.Migration):
    """Names the findings, and the scanner of the first."""

    dependencies = [("triage", "0017_reading_time")]

    operations = [
        migrations.AddField("action", "findings", models.CharField(blank=True, default="", max_length=2000), preserve_default=False),
        migrations.AddField("action", "scanner", models.CharField(blank=True, default="", max_length=60), preserve_default=False),
        migrations.AlterField("action", "kind", models.CharField(choices=KINDS, max_length=20)),
    ]
