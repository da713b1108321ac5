"""The few phrases and emoji that are read by rule: to close a case, thanks after its end,
greetings, "stop", thumbs.

A phrase counts only when it is the whole message: "never mind the first log, here is a better one"
closes nothing.
"""

import re

_MENTION = re.compile(r"<@[^<>]+>")
_CLOSE = re.compile(
    r"(?:(?:ok(?:ay)?|sorry|ah|oh|actually|please|pls)\s+)*"
    r"(?:never\s?mind(?:\s+(?:this|that|it))?|forget\s+(?:it|this|about\s+it)"
    r"|(?:you\s+can\s+)?(?:close|cancel|drop)"
    r"(?:\s+(?:this|it|that|the|this\s+case|the\s+case|the\s+bug|this\s+bug|this\s+one))?"
    r"|no\s+longer\s+(?:needed|an\s+issue|a\s+problem)|false\s+alarm|ignore\s+(?:this|it|that))"
    r"(?:\s+(?:please|pls|thanks|thank\s+you|now|sorry))*"
)
_BARE_CLOSE = re.compile(
    r"(?:(?:ok(?:ay)?|sorry|ah|oh|actually|please|pls)\s+)*(?:you\s+can\s+)?"
    r"(?:(?:close|cancel|drop)(?:\s+(?:it|that|the))?|(?:cancel|drop)\s+this"
    r"|ignore\s+(?:this|it|that))"
    r"(?:\s+(?:please|pls|thanks|thank\s+you|now|sorry))*"
)
"""Phrases of `_CLOSE` that name no case."""
_THANKS = re.compile(
    r"(?:(?:ok(?:ay)?|great|perfect|cool|nice|awesome|many|super|got\s+it|works?(?:\s+now)?"
    r"|it\s+works(?:\s+now)?|brilliant|cheers)\s*)*"
    r"(?:thanks|thank\s+you|thx|ty|cheers|much\s+appreciated)?"
    r"(?:\s+(?:a\s+lot|so\s+much|very\s+much|again|everyone|all|team|bot))*"
)
_STOP = re.compile(
    r"(?:(?:ok(?:ay)?|no|hey|wait|sorry|ah|oh|actually|please|pls|just)\s+)*"
    r"(?:stop|halt|abort)(?:\s+(?:it|this|that|everything|here|there|working))?"
    r"(?:\s+(?:stop|halt))*"
    r"(?:\s+(?:right|now|already|at\s+once|immediately|please|pls|thanks|thank\s+you|sorry))*"
)
_GREETING = re.compile(
    r"(?:hi+|hello|hey+|hiya|howdy|greetings|good\s+(?:morning|afternoon|evening|day)|morning)"
    r"(?:\s+(?:there|again|all|everyone|everybody|team|bot))*"
)
_SMALL_TALK = re.compile(
    r"(?:"
    r"hi+|hello|hey+|hiya|howdy|greetings|good "
    r"(?:morning|afternoon|evening|day|night)|morning|welcome back"
    r"|(?:many |a lot of )?thanks|thank you|thx|ty|cheers|much appreciated"
    r"|(?:good|nice|great) (?:job|work|one)|well done"
    r"|bye+|good ?bye|see you(?: later| soon| tomorrow)?|have a (?:nice|good|great) "
    r"(?:day|evening|weekend|one)"
    r"|how are you(?: doing)?|how is it going|hows it going|whats up|sup|nice to meet you|happy "
    r"friday"
    r"|hallo|moin|servus|guten (?:morgen|tag|abend)|danke(?: schön| sehr| dir| vielmals)?|vielen "
    r"dank|tschüss|wie gehts"
    r"|bonjour|salut|bonsoir|merci(?: beaucoup| bien)?|au revoir|ça va|hola|buenos "
    r"días|buenas(?: tardes)?"
    r"|(?:muchas )?gracias|adiós|ciao|buongiorno|(?:mille )?grazie|olá|oi|bom dia|(?:muito "
    r")?obrigad[oa]|hej|tack"
    r"|hoi|dank je(?: "
    r"wel)?|bedankt|cześć|dzięki|dziękuję|привет|здравствуйте|спасибо|дякую|merhaba|teşekkürler"
    r"|你好|您好|谢谢(?:你)?|謝謝|こんにちは|おはよう(?:ございます)?|ありがとう(?:ございます)?|안녕하세요|감사합니다"
    r"|مرحبا|شكرا|שלום|תודה|नमस्ते|धन्यवाद"
    r")"
    r"(?: (?:there|again|all|everyone|everybody|team|bot|threadline|a lot|so much|very much|you "
    r"too|to you))*"
)
STOP_SIGNS = frozenset({"octagonal_sign", "stop_sign", "no_entry"})
"""Names of emoji that mean stop, as a reaction or as a whole message: 🛑 under its two names, and
⛔.
"""
THUMBS = {"+1": True, "thumbsup": True, "-1": False, "thumbsdown": False}
"""Names of the reactions that rate an answer, and whether the thumb is up."""
_SKIN = "::skin-tone-"
_STOP_SIGN = re.compile(rf"\s*(?::(?:{'|'.join(sorted(STOP_SIGNS))}):|🛑|⛔)[\s!.\ufe0f]*")


def is_close(text: str) -> bool:
    """Return whether the whole message asks to close the case."""
    return _CLOSE.fullmatch(_words(text)) is not None


def is_bare_close(text: str) -> bool:
    """Return whether a closing phrase may also answer a question: "cancel" names a button, too."""
    return _BARE_CLOSE.fullmatch(_words(text)) is not None


def is_thanks(text: str) -> bool:
    """Return whether the whole message is thanks or a nod, which does not reopen a closed case."""
    words = _words(text)
    return bool(words) and _THANKS.fullmatch(words) is not None


def is_greeting(text: str) -> bool:
    """Return whether the whole message is a greeting, without a request so far."""
    return _GREETING.fullmatch(_words(text)) is not None


def is_small_talk(text: str) -> bool:
    """Return whether the whole message is greetings, thanks or a farewell, so that there is
    nothing to decide. A nod such as "ok" may answer a question, so it does not count.
    """
    said = _words(text)
    while found := _SMALL_TALK.match(said):
        said = said[found.end() :]
        if not said:
            return True
        if not said.startswith(" "):
            return False
        said = said[1:]
    return False


def is_stop(text: str) -> bool:
    """Return whether the whole message tells the bot to stop its work. "Stop the build" is about a
    build, and "cancel that" after an answer may mean the booking.
    """
    words = _words(text)
    return (
        _STOP.fullmatch(words) is not None
        if words
        else _STOP_SIGN.fullmatch(_MENTION.sub(" ", text)) is not None
    )


def thumb(reaction: str) -> bool | None:
    """Return whether a reaction is a thumb up, in any skin tone; None for other reactions."""
    return THUMBS.get(reaction.partition(_SKIN)[0])


def is_wordless(text: str) -> bool:
    """Return whether a text has nothing but emoji, mentions and punctuation."""
    return not _words(text)


def _words(text: str) -> str:
    """Return the text in lower case, without mentions, emoji or punctuation: `<@U1> Never mind,
    thanks! :pray:` → `never mind thanks`.
    """
    bare = re.sub(r":[a-z0-9_+\-]+:", " ", _MENTION.sub(" ", text.lower()))
    return " ".join(re.sub(r"[^\w\s']", " ", bare).replace("'", "").split())
