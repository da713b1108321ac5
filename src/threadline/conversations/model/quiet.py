"""The words that make a thread quiet, and those that end it. A word counts only when it is the
whole message: "is it quiet in here?" changes nothing.
"""

import re
import unicodedata
from dataclasses import dataclass
from decimal import Decimal

from threadline.threads.model import format_utc

LONGEST_QUIET = 30 * 86400.0
"""Seconds: a longer time that a person names is cut to this."""

_LONGEST_ORDER = 200
"""Characters: a longer text is no order, and is not read."""
_QUIET = {
    "en": "quiet;silence;silent;hush;shush;mute;snooze;shut up;shut it;zip it;pipe down;quiet down"
    ";be quiet;be silent;stay quiet;stay silent;keep quiet;keep silent;go quiet;go silent"
    ";mute yourself;mute this;mute this thread;mute the thread;mute thread;mute here"
    ";snooze this thread;stop talking;stop replying;stop answering;stop responding;stop writing"
    ";stop posting;dont talk;dont reply;dont answer;dont respond;do not reply;do not answer"
    ";do not respond;no more replies;no more answers;leave us alone;stay out of this"
    ";stay out of this thread;stop replying here;stop answering here",
    "de": "still;ruhe;leise;stumm;schweig;schweige;pst;psst;sei still;sei ruhig;sei leise"
    ";bleib still;bleib ruhig;halt den mund;halt die klappe;klappe;stumm schalten;stummschalten"
    ";nicht antworten;nicht mehr antworten;antworte nicht;antworte nicht mehr;lass uns in ruhe"
    ";seid still;ruhig",
    "fr": "silence;chut;tais toi;taistoi;taisez vous;silencieux;muet;reste silencieux"
    ";sois silencieux;mode silencieux;ne réponds plus;ne reponds plus;ne réponds pas"
    ";arrête de répondre;laisse nous tranquilles;en sourdine;sourdine",
    "es": "silencio;calla;cállate;callate;cállese;callese;chitón;chito;silenciar;silencia"
    ";silencia este hilo;no respondas;no respondas más;no contestes;deja de responder"
    ";guarda silencio;mantente en silencio;quédate callado",
    "pt": "silêncio;silencio;cala te;calate;cala a boca;calado;fica quieto;fique quieto"
    ";fica em silêncio;fique em silêncio;não responda;não responda mais;não respondas;silenciar",
    "it": "silenzio;zitto;zitta;stai zitto;stai zitta;taci;fai silenzio;non rispondere"
    ";non rispondere più;silenzia;silenziati",
    "nl": "stil;stilte;wees stil;wees rustig;rustig;hou je mond;houd je mond;zwijg;dempen"
    ";niet antwoorden;niet meer antwoorden;antwoord niet;antwoord niet meer",
    "sv": "tyst;var tyst;håll tyst;tystnad;svara inte",
    "da": "stille;vær stille;ti stille;svar ikke;lydløs",
    "no": "stille;vær stille;hold kjeft;ikke svar;svar ikke",
    "fi": "hiljaa;ole hiljaa;hiljaisuus;vaikene;älä vastaa",
    "pl": "cisza;cicho;bądź cicho;badz cicho;ucisz się;zamilcz;nie odpowiadaj;wycisz",
    "cs": "ticho;buď ticho;bud ticho;mlč;neodpovídej;ztlum",
    "ro": "liniște;liniste;taci;fii liniștit;nu răspunde",
    "hu": "csend;csendet;légy csendben;maradj csendben;hallgass;ne válaszolj",
    "tr": "sus;sessiz;sessiz ol;sessizlik;cevap verme;sessize al",
    "ru": "тихо;тишина;молчи;замолчи;помолчи;не отвечай;не отвечай больше;будь тихо;без звука",
    "uk": "тихо;тиша;мовчи;замовкни;помовч;не відповідай;будь тихо",
    "el": "σιωπή;ησυχία;σώπα;κάνε ησυχία;μην απαντάς",
    "ar": "اسكت;صمت;اصمت;هدوء;لا ترد",
    "he": "שקט;תהיה בשקט;שתוק;אל תענה;השתק",
    "hi": "चुप;चुप रहो;शांत;शांत रहो;खामोश;चुप हो जाओ",
    "ja": "静かに;静かにして;静かにしてください;黙って;黙ってください;黙れ;ミュート"
    ";ミュートして;返信しないで",
    "zh": "安静;安靜;请安静;請安靜;静音;靜音;闭嘴;閉嘴;别说话;別說話;不要回复"
    ";不要回覆;别回复;保持安静",
    "ko": "조용히;조용히 해;조용히 해줘;조용히 해주세요;조용;음소거;입 다물어;대답하지 마",
    "th": "เงียบ;เงียบหน่อย;หยุดพูด;อย่าตอบ",
    "vi": "im lặng;im đi;yên lặng;đừng trả lời;tắt tiếng",
    "id": "diam;tenang;hening;jangan jawab;bisukan",
}
_WAKE = {
    "en": "unmute;un mute;unmute yourself;unmute this thread;unmute the thread;unmute thread"
    ";unsnooze;wake up;wake;awake;be back;come back;speak;speak up;speak again;talk;talk again"
    ";you can talk;you can talk again;you can speak;you can speak again;you may speak"
    ";you may talk again;end quiet;stop being quiet;no longer quiet;resume;listen again"
    ";start talking;answer again;reply again;quiet off;mute off",
    "de": "wach auf;aufwachen;sprich;sprich wieder;rede wieder;antworte wieder"
    ";du darfst wieder reden;du darfst wieder antworten"
    ";stummschaltung aufheben;laut;weiter;komm zurück",
    "fr": "réveille toi;reveille toi;parle;tu peux parler;réponds à nouveau;reviens;réactive toi",
    "es": "despierta;despiértate;habla;puedes hablar;vuelve;reactivar;responde de nuevo",
    "pt": "acorda;acorde;fala;pode falar;volta;volte;responde de novo",
    "it": "svegliati;sveglia;parla;puoi parlare;torna;rispondi di nuovo",
    "nl": "wakker worden;word wakker;praat;praat weer;je mag weer praten;kom terug",
    "sv": "vakna;prata;kom tillbaka",
    "da": "vågn op;tal;kom tilbage",
    "no": "våkn opp;snakk;kom tilbake",
    "fi": "herää;puhu;tule takaisin",
    "pl": "obudź się;obudz sie;mów;możesz mówić;wróć",
    "cs": "vzbuď se;probuď se;mluv;vrať se",
    "ro": "trezește te;vorbește;revino",
    "hu": "ébredj;beszélj;gyere vissza",
    "tr": "uyan;konuş;konuşabilirsin;geri gel",
    "ru": "проснись;говори;можешь говорить;вернись;отвечай",
    "uk": "прокинься;говори;можеш говорити;повернись",
    "el": "ξύπνα;μίλα;γύρνα πίσω",
    "ar": "استيقظ;تكلم;ارجع",
    "he": "תתעורר;דבר;תחזור",
    "hi": "जागो;बोलो;वापस आओ",
    "ja": "起きて;起きてください;話して;話していいよ;ミュート解除",
    "zh": "醒醒;醒来;说话;說話;可以说话了;可以說話了;取消静音;取消靜音",
    "ko": "일어나;말해;말해도 돼;음소거 해제",
    "th": "ตื่น;ตื่นได้แล้ว;พูดได้",
    "vi": "thức dậy;nói đi;bật tiếng",
    "id": "bangun;bicara;boleh bicara",
}
_SIGNS = frozenset(
    {
        "shushing_face",
        "mute",
        "zipper_mouth_face",
        "no_mouth",
        "🤫",
        "🔇",
        "🤐",
        "speak_no_evil",
        "🙊",
    }
)
_WAKE_SIGNS = frozenset({"speaker", "loud_sound", "sound", "🔊", "🔉", "🔈"})
_POLITE = frozenset(
    word
    for words in (
        "please pls plz ok okay hey hi now just thanks thank you thx bot sorry guys here everyone",
        "already for bitte jetzt mal doch danke hier por favor ahora gracias merci plait stp svp",
        "maintenant per favore grazie adesso alsjeblieft nu agora obrigado tack kiitos",
        "пожалуйста теперь будь ласка lütfen proszę",
    )
    for word in words.split()
)
"""Words around an order that change nothing."""
_UNITS = {
    60.0: "m min mins minute minutes minuten minuto minutos minuti minuut",
    3600.0: "h hr hrs hour hours stunde stunden heure heures hora horas ora ore uur",
    86400.0: "d day days tag tage tagen jour jours día días dia dias giorno giorni dag dagen",
    7 * 86400.0: "w week weeks woche wochen semaine semaines semana semanas settimana settimane",
}
_SECONDS = {name: seconds for seconds, names in _UNITS.items() for name in names.split()}
_TIME = re.compile(
    r"\s*(?:(?:for|für|pour|pendant|por|durante|per|voor|the next)\s+)?"
    r"(?:(?P<count>\d{1,4})|(?P<one>an?|one|eine|une|una|un|een))\s*(?P<unit>[^\W\d_]+)$"
)
_PLEASE = re.compile(r"\b(?:sil (?:te|vous) pla[iî]t|if you can|would you|can you|could you)\b")
_HUSH = re.compile(r"s+h+|p+s+t+|h+u+s+h+")
"""Sounds for silence: *shhh*, *psst*."""
_EMOJI = re.compile(r":([a-z0-9_+\-]+):(?::skin-tone-\d:)?")
_TOKEN = re.compile(r"<[@!#][^<>]*>|@[\w.-]+")


@dataclass(frozen=True)
class QuietOrder:
    """An order of a person. `wakes`: it ends the quiet. `seconds`: the time that it names; None
    for the usual one.
    """

    wakes: bool = False
    seconds: float | None = None


@dataclass(frozen=True)
class Quiet:
    """The quiet of a thread, in Slack's seconds since 1970.

    - `until`: its end; 0 for a thread that nobody has made quiet;
    - `changed_at`: the message that changed it last. An older one, which arrives late, changes
      nothing.
    """

    until: Decimal = Decimal(0)
    changed_at: Decimal = Decimal(0)

    def holds(self, at: Decimal) -> bool:
        return at < self.until

    def begin(self, at: Decimal, seconds: float) -> "Quiet":
        return Quiet(at + Decimal(str(seconds)), at)

    def end(self, at: Decimal) -> "Quiet":
        return Quiet(Decimal(0), at)


def quiet_text(until: float) -> str:
    """Return the note that a thread is quiet. `until`: in seconds since 1970."""
    return (
        f"I will be quiet in this thread until {format_utc(until)}. I keep reading along. To have "
        "me back earlier, write `unmute` to me, or mention me with a request."
    )


AWAKE_TEXT = "I am back, and I answer in this thread again."


def parse_quiet_order(text: str) -> QuietOrder | None:
    """Return the order that a whole message gives; None if it is none, such as a question."""
    if len(text) > _LONGEST_ORDER or "?" in text or "？" in text:
        return None
    without_calls = _TOKEN.sub(" ", unicodedata.normalize("NFC", text))
    names = _EMOJI.findall(without_calls)
    words = _words(_EMOJI.sub(" ", without_calls))
    if not words:
        return _order_of_signs([*names, *_pictures(without_calls)])
    plain = _without_politeness(words)
    if plain in _WAKE_WORDS:
        return QuietOrder(wakes=True)
    if _is_quiet(plain):
        return QuietOrder()
    return _timed(_stripped(words))


def _timed(words: str) -> QuietOrder | None:
    """Return the order of `quiet for 2 hours`."""
    found = _TIME.search(words)
    if found is None or found["unit"] not in _SECONDS:
        return None
    count = int(found["count"] or 1)
    if count == 0 or not _is_quiet(_without_politeness(words[: found.start()])):
        return None
    return QuietOrder(seconds=min(count * _SECONDS[found["unit"]], LONGEST_QUIET))


def _is_quiet(plain: str) -> bool:
    return plain in _QUIET_WORDS or _HUSH.fullmatch(plain) is not None


def _order_of_signs(signs: list[str]) -> QuietOrder | None:
    if not signs:
        return None
    if _SIGNS.issuperset(signs):
        return QuietOrder()
    return QuietOrder(wakes=True) if _WAKE_SIGNS.issuperset(signs) else None


def _pictures(text: str) -> list[str]:
    """Return the characters that are emoji, outside of `:names:`."""
    return [each for each in _EMOJI.sub("", text) if unicodedata.category(each) == "So"]


def _words(text: str) -> str:
    """Return the words in lower case, without marks. A combining mark of a script stays."""
    kept = "".join(
        each if each.isalnum() or unicodedata.category(each)[0] == "M" else _gap(each)
        for each in text.lower()
    )
    plain = " ".join(kept.replace("\ufe0f", "").split())
    return " ".join(_PLEASE.sub(" ", plain).split())


def _gap(mark: str) -> str:
    return "" if mark in "'’‘ʼ" else " "


def _stripped(words: str) -> str:
    """Return the words without politeness at their end."""
    tokens = words.split()
    while tokens and tokens[-1] in _POLITE:
        tokens.pop()
    return " ".join(tokens)


def _without_politeness(words: str) -> str:
    tokens = _stripped(words).split()
    while tokens and tokens[0] in _POLITE:
        tokens.pop(0)
    return " ".join(tokens)


def _table(by_language: dict[str, str]) -> frozenset[str]:
    listed = (each for phrases in by_language.values() for each in phrases.split(";"))
    words = {_words(unicodedata.normalize("NFC", each)) for each in listed}
    return frozenset(words | {_without_politeness(each) for each in words}) - {""}


_QUIET_WORDS = _table(_QUIET)
_WAKE_WORDS = _table(_WAKE) - _QUIET_WORDS
