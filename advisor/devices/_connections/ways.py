"""The ways to a device that the connection of a profile can name.

The keys stand in profiles and become options of commands. A new way is one line here.
"""

from collections.abc import Mapping

from advisor.devices._connections.adb import ask_phone, check_serial, connect_phone
from advisor.devices._connections.clouds import CLOUD_NAMES, way_to
from advisor.devices._connections.protocol import Way
from advisor.devices._connections.ssh import ask_board, check_destination, connect_board

_SSH = "host, ``user@host`` or a name of the user's ssh configuration"

WAYS: Mapping[str, Way] = {
    "ssh": Way(_SSH, check_destination, connect_board, ask_board),
    "adb": Way("serial of an attached phone", check_serial, connect_phone, ask_phone),
    **{cloud: way_to(cloud) for cloud in CLOUD_NAMES},
}
"""The ways by their keys. A profile has one of them;
its schema, checks and errors follow from this table.
"""
