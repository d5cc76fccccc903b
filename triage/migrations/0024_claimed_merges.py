"""Actions that say whether a pull request was merged, as its author claims."""

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
]


class Migration(migrations.Migration):
    """Only the choices of a field; no row changes."""

    dependencies = [("triage", "0023_oauth")]

    operations = [migrations.AlterField("action", "kind", models.CharField(choices=KINDS, max_length=20))]
