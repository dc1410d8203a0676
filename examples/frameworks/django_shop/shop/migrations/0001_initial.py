from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    operations = [
        migrations.CreateModel(
            name="Order",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("state", models.CharField(default="unpaid", max_length=10)),
                ("mails", models.IntegerField(default=0)),
                ("invoiced", models.BooleanField(default=False)),
            ],
        )
    ]
