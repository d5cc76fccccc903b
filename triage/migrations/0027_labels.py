from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('triage', '0026_publishing'),
    ]

    operations = [
        migrations.CreateModel(
            name='Label',
            fields=[
                ('seq', models.BigIntegerField(primary_key=True, serialize=False)),
                ('uri', models.CharField(max_length=2048)),
                ('cid', models.CharField(max_length=200)),
                ('val', models.CharField(max_length=128)),
                ('neg', models.BooleanField(default=False)),
                ('exp', models.BigIntegerField(db_index=True)),
                ('signer', models.CharField(blank=True, max_length=400)),
                ('sig', models.BinaryField(default=b'')),
            ],
            options={
                'indexes': [models.Index(fields=['uri'], name='label_uri')],
                'constraints': [models.UniqueConstraint(condition=models.Q(('neg', False)), fields=('uri',), name='one_label_in_force')],
            },
        ),
    ]
