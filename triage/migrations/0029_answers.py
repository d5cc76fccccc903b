"""Answers of authors to what maintainers asked, and whether one came by a private link."""

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
    ("confirm_merge", "Confirm Merge"),
    ("deny_merge", "Deny Merge"),
    ("answer", "Answer"),
]


class Migration(migrations.Migration):
    """A column that is false for every row, and the choices of another."""

    dependencies = [("triage", "0028_briefing")]

    operations = [
        migrations.AddField("action", "by_link", models.BooleanField(default=False)),
        migrations.AlterField("action", "kind", models.CharField(choices=KINDS, max_length=20)),
    ]
