from datetime import timedelta

import django.db.models.deletion
from django.db import migrations, models


def end_after_a_day(apps, schema_editor):
    """Messages to the webhook were always tried for a day."""
    deliveries = apps.get_model('triage', 'Delivery').objects
    deliveries.update(ends_at=models.F('made_at') + timedelta(hours=24))


class Migration(migrations.Migration):

    dependencies = [
        ('triage', '0029_answers'),
    ]

    operations = [
        migrations.CreateModel(
            name='PushChoice',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('events', models.JSONField(default=list)),
                ('quiet_from', models.PositiveSmallIntegerField()),
                ('quiet_until', models.PositiveSmallIntegerField()),
                ('time_zone', models.CharField(max_length=64)),
                ('told_at', models.DateTimeField()),
                ('pushed_at', models.DateTimeField(null=True)),
                ('person', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='push_choice', to='triage.person')),
            ],
            options={
                'abstract': False,
            },
        ),
        migrations.CreateModel(
            name='PushSubscription',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('endpoint', models.CharField(max_length=1000, unique=True)),
                ('p256dh', models.CharField(max_length=100)),
                ('auth', models.CharField(max_length=100)),
                ('server_key', models.CharField(max_length=100)),
                ('browser', models.CharField(max_length=100)),
                ('made_at', models.DateTimeField()),
                ('person', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='push_subscriptions', to='triage.person')),
            ],
            options={
                'abstract': False,
            },
        ),
        migrations.RenameModel(old_name='WebhookDelivery', new_name='Delivery'),
        migrations.AddField(
            model_name='delivery',
            name='subscription',
            field=models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='deliveries', to='triage.pushsubscription'),
        ),
        migrations.AddField(
            model_name='delivery',
            name='ends_at',
            field=models.DateTimeField(null=True),
        ),
        migrations.RunPython(end_after_a_day, migrations.RunPython.noop),
        migrations.AlterField(
            model_name='delivery',
            name='ends_at',
            field=models.DateTimeField(),
        ),
        migrations.AddField(
            model_name='toldstate',
            name='repo_key',
            field=models.CharField(blank=True, default='', max_length=2048),
        ),
        migrations.AddField(
            model_name='toldstate',
            name='since',
            field=models.DateTimeField(db_index=True, null=True),
        ),
    ]
