"""Choose the file of a fleet for this phone: by rules, by a measurement, and by the times of its
runs.

Needs Python 3.9 and nothing else. ``tiers.json`` is all that it reads; see README.md beside it.

    phone = {"names": ["SM6225"], "memory_bytes": 4e9}
    selector = TierSelector(json.load(open("tiers.json")), phone, stored)
    if selector.is_new:
        selector.self_test(run)       # run(tier, inputs) -> outputs: floats of an image, flat
        selector.measure(time_run)    # time_run(tier) -> milliseconds of one run
    selector.file                     # file to load; None: no file passed the self-test
    selector.ran(milliseconds, hot)   # after each run; True: load selector.file again
    stored = selector.state()
"""

# The export copies this file alone into bundles, beside selectors in JavaScript, Kotlin and Swift
# that choose alike: a change here is made in all four. Stored states of earlier versions are read.

from __future__ import annotations

import base64
import json
import math
import re
import statistics
from collections.abc import Callable
from typing import Any

MAKERS = re.compile(r"^(qualcomm|mediatek|samsung|hisilicon|google|unisoc|spreadtrum|apple)")
CORES = 4
NEARLY = 1.02  # a phone whose cores are so much faster in theory counts as slower
APART = 1.5  # of the phones whose cores are slower by up to this factor, the slowest one counts


def plain(name: str) -> str:
    """Return a name for comparison: small letters, digits and plus, without the maker;
    of iPhones the first number.
    """
    # hw.machine of iPhones is "iPhone14,5": models with one first number have one SoC.
    model = name.split(",")[0].lower()
    letters = re.sub(r"\((?:tm|r)\)|[^a-z0-9+]", "", model)
    return MAKERS.sub("", letters)


class TierSelector:
    """The tier of this phone; 0 is the floor, a higher one is more accurate and slower.

    ``phone`` has what the app knows, each entry optional: ``names`` (Build.SOC_MODEL, hw.machine,
    ...), ``gpu`` (the renderer's name), ``cores`` (a list of ``part`` and ``mhz``),
    ``memory_bytes``, ``system`` (``android_api`` or ``ios``) and ``version``. ``stored`` is the
    text of an earlier :meth:`state`.
    """

    def __init__(self, tiers: dict[str, Any], phone: dict[str, Any], stored: str = "") -> None:
        self.tiers = tiers
        self.phone = phone
        known, known_by = self._recognise()
        self.known = known
        self.known_by = known_by
        self.ratio: float | None = None
        self.highest = len(tiers["tiers"]) - 1
        self.failed: list[int] = []
        self.times: list[float] = []
        self.again = False  # measure again later: the phone was hot
        self.tier: int | None = None
        self.is_new = not self._restore(stored)
        if self.is_new:
            self.tier = self._best()

    @property
    def file(self) -> str | None:
        """The name of the file to load; None if every file failed the self-test."""
        return None if self.tier is None else str(self.tiers["tiers"][self.tier]["file"])

    def expected_ms(self, tier: int) -> float:
        """Return the milliseconds that a run of a tier does not exceed with the confidence;
        infinite if unknown.
        """
        if self.known is None:
            return math.inf
        if self.ratio is None:
            return float(self.known["sure_ms"][tier])
        change = self.tiers["measuring"][tier]
        return float(self.known["ms"][tier] * self.ratio ** change["gain"] * change["factor"])

    def self_test(self, run: Callable[[int, list[float]], list[float]]) -> int | None:
        """Run the test vectors through the file of the tier.

        A file that computes something else is left for the next.
        """
        while self.tier is not None and not self.passes(self.tier, run):
            self.failed.append(self.tier)
            self.tier = self._best()
        return self.tier

    def measure(self, time_run: Callable[[int], float], hot: bool = False) -> int | None:
        """Time the fastest file, and choose by the ratio to its prediction.

        A hot phone is to be measured again.
        """
        measured = self.tiers["measured_tier"]
        # The first run is slower than all others.
        time_run(measured)
        times = [time_run(measured) for _ in range(3)]
        while sum(times) < self.tiers["window_ms"]:
            times.append(time_run(measured))
        return self.place(statistics.median(times), hot)

    def place(self, milliseconds: float, hot: bool = False) -> int | None:
        """Choose by the median time of the fastest file.

        A better tier than before, also by rules, needs a margin.
        """
        measured = self.tiers["measured_tier"]
        before = self.tier
        remembered = self.ratio
        if self.known is None or self.known_by == "time":
            phones = self.tiers["phones"]
            self.known = min(
                phones, key=lambda phone: abs(math.log(phone["ms"][measured] / milliseconds))
            )
            self.known_by = "time"
        self.ratio = milliseconds / self.known["ms"][measured]
        best = self._best()
        # One measurement is uncertain: a better tier needs a margin,
        # or the app would change back and forth.
        if best is not None and before is not None and best > before:
            better = [tier for tier in self._usable() if before <= tier <= best]
            best = max(filter(self._clearly, better), default=before)
        self.tier = best
        self.again = hot
        # A hot phone is slower than it will be: its ratio chooses now, and is not remembered.
        if hot:
            self.ratio = remembered
        return self.tier

    def ran(self, milliseconds: float, hot: bool = False) -> bool:
        """Take the time of a run; True if the budget is missed and the tier is now a lower one.

        The lower tier is kept for good, but on a hot phone only until the app starts again.
        """
        rules = self.tiers["rules"]
        self.times = [*self.times, milliseconds]
        if self.tier is None or len(self.times) < rules["window"]:
            return False
        place_of_p90 = math.ceil(0.9 * len(self.times)) - 1
        p90_ms = sorted(self.times)[place_of_p90]
        slow = p90_ms > rules["late"] * self.tiers["budget_ms"]
        self.times = []
        lower = [tier for tier in self._usable() if tier < self.tier]
        if not slow or not lower:
            return False
        self.tier = lower[-1]
        self.again = self.again or hot
        if not hot:
            self.highest = self.tier
        return True

    def state(self) -> str:
        """Return what to store: the choice is remembered until the files change."""
        stored_state = {
            "id": self.tiers["id"],
            "ratio": self.ratio,
            "highest": self.highest,
            "failed": self.failed,
        }
        place = (
            self.known["names"][0] if self.known is not None and self.known_by == "time" else ""
        )
        return json.dumps(
            {**stored_state, "tier": None if self.again else self.tier, "placed": place}
        )

    def _restore(self, stored: str) -> bool:
        """Take a stored state; return whether it is one of these files."""
        try:
            state = json.loads(stored)
            if state["id"] != self.tiers["id"]:
                return False
            # All entries are read before one of them is taken: a damaged text must change nothing.
            ratio = state["ratio"]
            highest = int(state["highest"])
            failed = list(state["failed"])
            tier = state["tier"]
            if state["placed"]:
                self.known = next(
                    phone for phone in self.tiers["phones"] if state["placed"] in phone["names"]
                )
                self.known_by = "time"
        except (ValueError, KeyError, TypeError, StopIteration):
            return False
        self.ratio = ratio
        self.highest = highest
        self.failed = failed
        self.again = tier is None and self._best() is not None
        self.tier = self._best() if self.again else tier
        return True

    def _usable(self) -> list[int]:
        """Return the tiers that this phone can run, ascending."""
        memory = self.phone.get("memory_bytes")
        share = self.tiers["rules"]["memory_share"]
        least_version = self.tiers["requires"].get(self.phone.get("system", ""), 0)
        tiers = self.tiers["tiers"]
        # The floor is always allowed.
        allowed = [tier for tier in range(len(tiers)) if tier <= self.highest or tier == 0]
        fits = []
        for tier in allowed:
            # A file of unknown memory, or any on a phone of unknown memory, is tried.
            needed = tiers[tier]["memory_bytes"] or 0
            if not memory or needed <= share * memory:
                fits.append(tier)
        if self.phone.get("version", least_version) < least_version:
            fits = fits[:1]
        usable = [tier for tier in fits if tier not in self.failed]
        # Where no file fits, the lowest that computes right is the last resort.
        return usable or [tier for tier in range(len(tiers)) if tier not in self.failed][:1]

    def _best(self) -> int | None:
        """Return the most accurate usable tier within the budget, else the lowest usable one."""
        usable = self._usable()
        good = [tier for tier in usable if self.expected_ms(tier) <= self.tiers["budget_ms"]]
        return good[-1] if good else next(iter(usable), None)

    def _clearly(self, tier: int) -> bool:
        """Return whether a tier is expected to meet the budget with a margin."""
        return bool(self.expected_ms(tier) <= self.tiers["rules"]["up"] * self.tiers["budget_ms"])

    def passes(self, tier: int, run: Callable[[int, list[float]], list[float]]) -> bool:
        """Return whether a file gives the expected values for every test vector."""
        facts = self.tiers["tiers"][tier]
        vectors = self.tiers["vectors"]
        for place, expected in enumerate(facts["expected"]):
            # A runtime that cannot load or run a file may raise anything,
            # and the app needs the next file.
            try:
                outputs = list(run(tier, self.inputs(tier, vectors["pixels"][place])))
                values = outputs[:: vectors["stride"][tier]]
            except Exception:
                return False
            if len(values) != len(expected):
                return False
            tolerance = vectors["tolerance"][tier]
            for at, value in enumerate(expected):
                # Written so that NaN fails: no comparison with it is true.
                if not abs(values[at] - value) <= tolerance:
                    return False
        return True

    def inputs(self, tier: int, pixels: str) -> list[float]:
        """Return a test vector as a file takes it:
        its pixels repeated up to the side of the input, normalised.
        """
        facts = self.tiers["tiers"][tier]["input"]
        side = self.tiers["vectors"]["side"]
        small = base64.b64decode(pixels)
        places = [place * side // facts["size"] for place in range(facts["size"])]
        values = []
        for row in places:
            for column in places:
                first = 3 * (side * row + column)
                for channel in small[first : first + 3]:
                    values.append((channel - facts["mean"]) / facts["std"])
        return values

    def _recognise(self) -> tuple[dict[str, Any] | None, str]:
        """Return the known phone that this one counts as, and by what it was recognised."""
        phones = self.tiers["phones"]
        names = list(map(plain, self.phone.get("names", [])))
        for phone in phones:
            if any(name in phone["names"] for name in names if name):
                return phone, "name"
        gpu = plain(self.phone.get("gpu", ""))
        for phone in phones:  # the slowest phones are first
            if phone["gpu"] and phone["gpu"] in gpu:
                return phone, "gpu"
        speed = self._speed(self.phone.get("cores", []))
        slower = [phone for phone in phones if 0 < phone["speed"] <= NEARLY * speed]
        near = [phone for phone in slower if phone["speed"] >= speed / APART] or slower[-1:]
        if not near:
            return None, ""
        # Cores tell the speed roughly, so the slowest of the similar phones counts
        # until this one has measured.
        measured = self.tiers["measured_tier"]
        slowest = max(near, key=lambda phone: phone["ms"][measured])
        return slowest, "cores"

    def _speed(self, cores: list[dict[str, Any]]) -> float:
        """Return 10^9 multiply-accumulates a second of the fastest cores;
        an unknown core counts as a small one.
        """
        macs = self.tiers["core_macs"]
        rates = [macs.get(core.get("part", ""), 4) * core["mhz"] / 1000 for core in cores]
        fastest_rates = sorted(rates, reverse=True)[:CORES]
        return float(sum(fastest_rates))
