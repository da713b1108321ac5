"""What every section has in common: frozen, read from the environment, wrong values reported by variable."""

import re
from email.utils import parseaddr
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from threadline.cases.model import DEFAULT_TARGETS, Severity, SlaTarget
from threadline.errors import Permanent
from threadline.models.prices import Price, parse_prices
from threadline.privacy.keys import KeyRing, parse_keys
from threadline.sales.model import MailAccount, is_address, parse_mail_account


def parse_duration(text: str) -> float:
    """Seconds of `15m`, `4h`, `5d`, `30s`, `1h30m`.

    Raises:
        ValueError: with a sentence that names the text and the form that is expected.
    """
    total, number = 0.0, ""
    units = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
    for character in text.strip().lower():
        if character.isdigit() or character == ".":
            number += character
        elif character in units and number:
            total, number = total + float(number) * units[character], ""
        else:
            raise ValueError(f"{text!r} is not a duration: write it as 30s, 15m, 2h, 5d or 1h30m")
    if number or not text.strip():
        raise ValueError(f"{text!r} is not a duration: write it as 30s, 15m, 2h, 5d or 1h30m")
    return total


def parse_targets(text: str) -> dict[Severity, SlaTarget]:
    """Targets by severity from `S1=15m/4h,S2=1h/24h`; a severity that is not named keeps its default.

    Raises:
        ValueError: with a sentence that names what could not be read.
    """
    targets = dict(DEFAULT_TARGETS)
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        name, _, times = part.partition("=")
        acknowledge, slash, resolve = times.partition("/")
        if name.strip().upper() not in Severity.__members__ or not slash:
            raise ValueError(f"{part!r} is not a target: write severity=acknowledge/resolve, such as S1=15m/4h")
        targets[Severity(name.strip().upper())] = SlaTarget(parse_duration(acknowledge), parse_duration(resolve))
    return targets


def _seconds(value: Any) -> Any:
    return parse_duration(value) if isinstance(value, str) else value


def _names(value: Any) -> Any:
    return tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value


def _tiers(value: Any) -> Any:
    return tuple(_names(tier) for tier in value.split(";") if tier.strip()) if isinstance(value, str) else value


def _targets(value: Any) -> Any:
    return parse_targets(value) if isinstance(value, str) else value


def _keys(value: Any) -> Any:
    return parse_keys(value) if isinstance(value, str) else value


def _prices(value: Any) -> Any:
    return parse_prices(value) if isinstance(value, str) else value


def _sources(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    pairs = [part.partition("=") for part in value.split(",") if part.strip()]
    if any(not dsn or not name.strip().isidentifier() for name, _, dsn in pairs):
        raise ValueError("write it as name=postgresql://…, several separated by commas")
    return {name.strip(): SecretStr(dsn.strip()) for name, _, dsn in pairs}


Seconds = Annotated[float, BeforeValidator(_seconds), Field(gt=0)]


def _postgres(value: Any) -> Any:
    if isinstance(value, str) and not value.startswith(("postgresql://", "postgres://")):
        raise ValueError("write it as postgresql://user:password@host:port/name")
    return value


def _http(value: Any) -> Any:
    if isinstance(value, str) and not value.startswith(("https://", "http://")):
        raise ValueError("write it as https://host, with the path if it has one")
    return value


def _slug(value: Any) -> Any:
    if isinstance(value, str) and not re.fullmatch(r"[\w.-]+/[\w.-]+", value):
        raise ValueError("write it as owner/name")
    return value


def _channel(value: str) -> str:
    if not re.fullmatch(r"[CG][A-Z0-9]{6,}", value):
        raise ValueError("give the channel's id, such as C0123456789, as its details in Slack show it")
    return value


def _people(value: tuple[str, ...]) -> tuple[str, ...]:
    if any(not re.fullmatch(r"[UW][A-Z0-9]{2,20}", each) for each in value):
        raise ValueError("give the ids of users, such as U0123456789, several separated by commas")
    return tuple(dict.fromkeys(value))


def _mail_server(value: Any) -> Any:
    return parse_mail_account(value) if isinstance(value, str) else value


def _mail_address(value: str) -> str:
    if value and (not value.isprintable() or not is_address(parseaddr(value)[1].lower())):
        raise ValueError("write it as sales@example.com, or as Sales <sales@example.com>")
    return value


def _domains(value: tuple[str, ...]) -> tuple[str, ...]:
    plain = tuple(dict.fromkeys(each.lower().removeprefix("@") for each in value))
    if any(not is_address(f"somebody@{each}") for each in plain):
        raise ValueError("give domains such as example.com, several separated by commas")
    return plain


HttpAddress = Annotated[str, BeforeValidator(_http)]
Slug = Annotated[str, BeforeValidator(_slug)]
PostgresUrl = Annotated[SecretStr, BeforeValidator(_postgres)]
Channel = Annotated[str, AfterValidator(_channel)]
Names = Annotated[tuple[str, ...], BeforeValidator(_names)]
Channels = Annotated[tuple[Channel, ...], BeforeValidator(_names)]
People = Annotated[tuple[str, ...], BeforeValidator(_names), AfterValidator(_people)]
MailServer = Annotated[MailAccount, BeforeValidator(_mail_server)]
MailAddress = Annotated[str, AfterValidator(_mail_address)]
Domains = Annotated[tuple[str, ...], BeforeValidator(_names), AfterValidator(_domains)]
Tiers = Annotated[tuple[tuple[str, ...], ...], BeforeValidator(_tiers)]
Targets = Annotated[dict[Severity, SlaTarget], BeforeValidator(_targets)]
Keys = Annotated[KeyRing, BeforeValidator(_keys)]
Prices = Annotated[dict[str, Price], BeforeValidator(_prices)]
Sources = Annotated[dict[str, SecretStr], BeforeValidator(_sources)]


class Section(BaseSettings):
    model_config = SettingsConfigDict(
        frozen=True, env_ignore_empty=True, extra="ignore", enable_decoding=False, populate_by_name=True
    )

    @classmethod
    def read(cls) -> Self:
        """Read the section from the environment.

        Raises:
            Permanent: with one sentence for each variable that is wrong.
        """
        try:
            return cls()
        except ValidationError as error:
            raise Permanent("; ".join(_sentence(cls, detail) for detail in error.errors())) from error


def _sentence(section: type[BaseSettings], detail: Any) -> str:
    if not detail["loc"]:
        return f"{section.model_config.get('env_prefix', '')}*: {detail['msg'].removeprefix('Value error, ')}"
    name = str(detail["loc"][0])
    fields = {field.validation_alias or key: key for key, field in section.model_fields.items()}
    prefix = section.model_config.get("env_prefix", "")
    variable = name if name in fields and name.isupper() else f"{prefix}{name}".upper()
    if detail["type"] == "missing":
        return f"{variable} is not set: see docs/settings.md"
    hidden = any(word in variable for word in ("TOKEN", "URL", "KEY", "SECRET", "DATABASE"))
    found = "a secret that is not shown" if hidden else repr(detail["input"])
    return f"{variable} is {found}: {detail['msg'].removeprefix('Value error, ')}"
