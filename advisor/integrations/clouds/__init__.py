"""Device clouds as devices of advisor: phones of others that run files for people who send them.

The entry points ``advisor.device_clouds`` name the clouds, and ``devices`` calls them. The names
of clouds are in the selectors and profiles of users: they stay.

``_cloud.py`` has what every cloud shares, ``_answers.py`` compares answers to images, and one
module is one cloud. To add a cloud, write a module with a
:class:`advisor.integrations.clouds._cloud.CloudClient` and a ``Cloud`` of it, and one line below
``advisor.device_clouds`` in ``pyproject.toml``; its name stands in ``CLOUD_NAMES``, too
(``devices/_connections/clouds.py``).
"""
