"""A role for each maintainer row: what there was so far is admin of the site, or maintainer of a repository."""

from typing import Any

from django.db import migrations, models


def give_roles(apps: Any, schema_editor: Any) -> None:
    """Say the role that each row had without saying it."""
    rows = apps.get_model("triage", "Maintainer").objects
    rows.filter(repo_key="").update(role="admin")
    rows.exclude(repo_key="").update(role="maintainer")


class Migration(migrations.Migration):
    dependencies = [("triage", "0004_repository_settings")]

    operations = [
        migrations.AddField(
            model_name="maintainer",
            name="role",
            field=models.CharField(
                choices=[("viewer", "Viewer"), ("maintainer", "Maintainer"), ("admin", "Admin")],
                default="maintainer",
                max_length=20,
            ),
            preserve_default=False,
        ),
        migrations.RunPython(give_roles, migrations.RunPython.noop),
    ]
