"""Checks of the checkout that ``make lint`` runs beside the linters."""
