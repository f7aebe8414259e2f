"""A run of a real search, done once a test session."""

from tests.exporting.conftest import copied, many_images, photos, shared_folder, trained, warm_cache, with_images

__all__ = ["copied", "many_images", "photos", "shared_folder", "trained", "warm_cache", "with_images"]
