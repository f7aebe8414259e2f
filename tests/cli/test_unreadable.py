"""A folder in which no image can be read."""

from pathlib import Path

from tests.makers.commands import Advisor, ended


def test_a_check_of_no_image_ends_as_a_wrong_use(advisor: Advisor, tmp_path: Path) -> None:
    for name in ("cat", "dog"):
        (tmp_path / "photos" / name).mkdir(parents=True)
        (tmp_path / "photos" / name / "1.jpg").write_text("no image")
    said = ended(advisor("data", "check", "photos"), 2)
    assert "2 files cannot be used" in said.out
