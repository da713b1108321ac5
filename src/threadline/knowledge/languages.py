"""The languages whose words Postgres stems."""

ENGLISH = "english"
UNSTEMMED = "simple"
"""Configuration for all other languages: words match in the same form only."""
STEMMED = {
    "ar": "arabic",
    "ca": "catalan",
    "da": "danish",
    "de": "german",
    "el": "greek",
    "en": ENGLISH,
    "es": "spanish",
    "et": "estonian",
    "eu": "basque",
    "fi": "finnish",
    "fr": "french",
    "ga": "irish",
    "hi": "hindi",
    "hu": "hungarian",
    "hy": "armenian",
    "id": "indonesian",
    "it": "italian",
    "lt": "lithuanian",
    "nb": "norwegian",
    "ne": "nepali",
    "nl": "dutch",
    "nn": "norwegian",
    "no": "norwegian",
    "pt": "portuguese",
    "ro": "romanian",
    "ru": "russian",
    "sr": "serbian",
    "sv": "swedish",
    "ta": "tamil",
    "tr": "turkish",
    "yi": "yiddish",
}
"""Postgres' text search configurations by the codes of ISO 639."""


def configuration(language: str) -> str:
    """Return the text search configuration for `de`, `de-AT`, `de_AT.UTF-8` or `German`."""
    name = language.strip().lower()
    code = name.replace("_", "-").partition("-")[0]
    return name if name in STEMMED.values() else STEMMED.get(code, UNSTEMMED)
