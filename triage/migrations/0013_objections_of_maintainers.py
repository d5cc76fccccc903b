"""Limit what maintainers objected in somebody's name "to being scored at all" to their own repositories."""

from django.db import migrations
from django.utils import timezone


def limit_to_their_repositories(apps, editor):
    """Limit each open one, and tell the worker of every open objection of a maintainer, which says who spoke since.

    The log says who wrote it. Somebody who maintains several repositories gets one objection for each; where nobody can
    be told, or they maintain the whole site, it stays as it was.
    """
    objection, now = apps.get_model("triage", "Objection"), timezone.now()
    for found in objection.objects.filter(source="maintainer", state="open").order_by("pk"):
        keys = [] if found.pull_uri or found.repo_key else _repositories(apps, found)
        for place, repo_key in enumerate(keys):
            found.repo_key = repo_key
            if place:
                found.pk, found.key = None, f"{found.key.partition('#')[0]}#{place}"
            found.save()
            _tell(apps, found, now)
        if not keys:
            _tell(apps, found, now)


def _repositories(apps, found):
    written = {"what": "objection.made", "subject": found.did, "made_at": found.made_at}
    change = apps.get_model("triage", "Change").objects.filter(**written, person__isnull=False).first()
    if change is None:
        return []
    roles = apps.get_model("triage", "Maintainer").objects.filter(
        person_id=change.person_id, role__in=("maintainer", "admin")
    )
    keys = sorted(roles.values_list("repo_key", flat=True))
    return [] if "" in keys else keys


def _tell(apps, found, now):
    told = {"kind": "objection", "payload": {"key": found.key}, "made_at": now, "due_at": now}
    apps.get_model("triage", "OutboxEntry").objects.get_or_create(key=f"objection:{found.pk}:0013", defaults=told)


class Migration(migrations.Migration):
    dependencies = [("triage", "0012_token_repository")]

    operations = [migrations.RunPython(limit_to_their_repositories, migrations.RunPython.noop)]
