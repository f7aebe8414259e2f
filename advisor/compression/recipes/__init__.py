"""Compression recipes: each turns one float ``.tflite`` into one compressed ``.tflite``."""

from __future__ import annotations

from advisor.compression.recipes.base import Recipe, lighter_recipes
from advisor.compression.recipes.listed import RECIPES, recipe

__all__ = ["RECIPES", "Recipe", "lighter_recipes", "recipe"]
