"""Links to what is stored about a contributor, objections, wishes."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('triage', '0005_roles'),
    ]

    operations = [
        migrations.CreateModel(
            name='LeaderboardWish',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('did', models.CharField(max_length=2048, unique=True)),
                ('left_out', models.BooleanField()),
                ('source', models.CharField(choices=[('link', 'Link'), ('self', 'Self'), ('maintainer', 'Maintainer'), ('record', 'Record')], max_length=20)),
                ('told_at', models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name='ContributorLink',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('did', models.CharField(db_index=True, max_length=2048)),
                ('purpose', models.CharField(choices=[('data', 'Data'), ('decision', 'Decision')], max_length=20)),
                ('pull_uri', models.CharField(blank=True, max_length=2048)),
                ('secret_hash', models.CharField(max_length=64, unique=True)),
                ('made_at', models.DateTimeField()),
                ('expires_at', models.DateTimeField()),
                ('revoked_at', models.DateTimeField(null=True)),
                ('made_by', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
        ),
        migrations.CreateModel(
            name='Objection',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('key', models.CharField(max_length=2048, unique=True)),
                ('did', models.CharField(db_index=True, max_length=2048)),
                ('pull_uri', models.CharField(blank=True, db_index=True, max_length=2048)),
                ('repo_key', models.CharField(blank=True, db_index=True, max_length=2048)),
                ('record_cid', models.CharField(blank=True, max_length=256)),
                ('text', models.TextField()),
                ('source', models.CharField(choices=[('link', 'Link'), ('self', 'Self'), ('maintainer', 'Maintainer'), ('record', 'Record')], max_length=20)),
                ('made_at', models.DateTimeField()),
                ('due_at', models.DateTimeField()),
                ('state', models.CharField(choices=[('open', 'Open'), ('accepted', 'Accepted'), ('rejected', 'Rejected')], default='open', max_length=20)),
                ('answer', models.TextField(blank=True)),
                ('answered_at', models.DateTimeField(null=True)),
                ('answered_by', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
        ),
    ]
