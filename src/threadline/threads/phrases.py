"""The phrases and emoji that are read by rule: to close a case, thanks after its end, greetings,
"stop", thumbs.

Most phrases count only when they are the whole message. A close may also name a reason, if each
part of the message is known (`_PARTS`): "please ignore, it was my VPN" closes; "never mind the
first log, here is a better one" closes nothing.

A list of phrases separates its entries by ` | `. An entry is a regular expression in lower case,
without punctuation and apostrophes.
"""

import re
from enum import Enum, auto
from functools import cache

_LETTER = r"[^\W\u3040-\u30ff\u4e00-\u9fff]"
"""A letter of a word that spaces end. Japanese has none, so its letters do not count."""


def any_of(words: str) -> str:
    """Return a pattern for each entry of a list, as a whole word. Line breaks do not count."""
    return rf"(?<!{_LETTER})(?:{'|'.join(entries(words))})(?!{_LETTER})"


def entries(words: str) -> list[str]:
    """Return the entries of a list of phrases."""
    return [re.sub(r"\n\s*", "", entry) for entry in re.split(r" \|\s+", words.strip())]


_MENTION = re.compile(r"<@[^<>]+>")
_EMOJI = re.compile(r":[a-z0-9_+\-]+:")
MAX_CLOSE = 200
"""Characters of the longest message that closes a case. A longer one has more to say."""


class _Part(Enum):
    """The kinds of parts that a closing message consists of."""

    CLOSE = auto()
    """Asks to close: "never mind", "can be closed", "fixed itself"."""
    BARE = auto()
    """Asks to close, or answers a question: "cancel", "ignore it"."""
    OWN = auto()
    """Names the author's own side as the cause: "it was my VPN", "wrong config on my end"."""
    WELL = auto()
    """Says that the problem is over ("it works now"), or one word that may also be an answer to a
    question ("resolved").
    """
    FILLER = auto()
    """Says nothing about the case: "sorry", "thanks", "because"."""


_CASE = (
    r"(?:(?:(?:this|that|the|my) )?(?:case|bug|report|ticket|issue)"
    r"|this one|my (?:thread|request|question|message))"
)
_PROBLEM = (
    r"(?:(?:its?|thats?|this|everything"
    r"|(?:the |my )?(?:problem|issue|bug|error|cause|reason|fault)) )?"
)
_NO = r"no|not|never|nothing|nicht|keine?|nie|pas|plus|não|non|niet|nunca"
_MORE = (
    r"that|which|who|when|and|works?|happens?|wrong|empty|orders?|invoices?|screenshots?|logs?"
    r"|messages?|files?|try|totals?|crash\w*|fail\w*|broken?"
)
_X = rf"(?!(?:{_MORE}|{_NO})\b)\w+"
"""A word of a reason: one that denies nothing, and does not go on with the report."""
_SOLVED = (
    rf"(?:(?=\w+ (?:\w+ )*(?:solved|resolved)\b){_PROBLEM}"
    r"(?:is |was |s |has been |got |now )*(?:solved|resolved))"
)
_WRONG = (
    r"wrong (?:channel|thread|account|environment|branch|tab|url|link|file|window|password|version"
    r"|vpn|network|config\w*|settings?|setup|button|project|page|database|db|user|key|token|path"
    r"|folder)"
)
_CAUSED = (
    r"(?:just|only|actually|all|because of|due to|caused by|with|in|on|from|an?|the|problem|issue"
    r"|bug|something|wrong|error|typo|glitch)"
)
_OWN_THING = (
    r"(?:own |local |old |browser |corporate |laptops |computers |browsers |phones )*"
    r"(?:vpn|proxy|cache|browser|network|wi ?fi|internet|connection|laptop|computer|machine|phone"
    r"|config\w*|settings?|setup|environment|session|dns|firewall|ad ?blocker|extension|plugin"
    r"|antivirus|clock|router|token|cookies?|branch|script)"
)
_CLOSE = entries(
    rf"""
    (?:never ?mind|nvm)(?: about)?(?: (?:{_CASE}|this|that|it|me))? |
    forget (?:about )?(?:it|this) |
    (?:please |pls |you can |feel free to |we can |i will |ill |im |i am )*(?:clos(?:e|ing)|cancel|
    drop|delete|withdraw(?:ing)?|ignore|disregard) {_CASE} |
    (?:please |pls |you can |feel free to |we can |i will |ill |im |i am )*clos(?:e|ing) this |
    i (?:withdraw|take back) (?:this|it) | withdrawing (?:this|it) | ignore me |
    (?:lets|id like to|i would like to|i want to) close (?:{_CASE}|it|this|that) |
    (?:i |we )?(?:dont|do not|no longer) need (?:{_CASE}|it|this|that)(?: any ?more)? |
    ok to close |
    (?:(?:{_CASE}|it|this) )?(?:can|could|may) (?:now )?be (?:closed|cancell?ed|dropped|
    ignored) | no longer (?:needed|relevant|necessary|an issue|a problem|happen(?:s|ing)) |
    (?:not|isnt) (?:needed|relevant|necessary|an issue|a problem) any ?more |
    (?:it was |was )?(?:a )?false alarm |
    no need to (?:look|investigate|check|fix|do)(?: {_X}){{0,4}} |
    (?:i |we )?(?:have |ve |already )*(?:solved|fixed|resolved|sorted|figured|worked|
    found)(?: (?:it|this|that|the (?:problem|issue)))?(?: out)?[ ](?:myself|ourselves|on my own|
    by myself|on (?:my|our) (?:side|end)) |
    {_PROBLEM}(?:has |have |just |already )*(?:fixed|solved|resolved|
    sorted)(?: out)? itself(?: out)?(?: overnight| again| somehow)? | {_SOLVED} |
    (?:i )?(?:opened|filed|reported|created|sent|posted)(?: (?:{_CASE}|this|
    it))?[ ](?:by (?:mistake|accident|error)|in error|accidentally) |
    hat sich (?:{_X} )?(?:erledigt|geklärt) | kommando zurück | hats sich | vergiss es |
    vergesst es | fehlalarm | schon gut |
    (?:(?:das|es|der fall|das ticket) )?kann (?:geschlossen|ignoriert) werden | kann zu |
    bitte (?:(?:den fall|das ticket|das|dies) )?(?:ignorieren|schließen|zumachen|vergessen) |
    (?:ihr könnt|du kannst|könnt ihr) (?:{_X} ){{0,2}}(?:schließen|zumachen|ignorieren) |
    (?:ich )?(?:habs|hab es|habe es) (?:selbst|selber|allein) (?:gelöst|hinbekommen|behoben) |
    selbst gelöst | (?:problem |ist |schon )+gelöst | nicht mehr (?:nötig|relevant|notwendig) |
    hat sich von (?:selbst|allein) (?:gelöst|behoben|erledigt) | laisse[zr]? tomber | annulez? |
    oublie[zr]? (?:ça|cela|mon message) | fausse alerte |
    (?:vous pouvez|tu peux|on peut|merci de|veuillez) (?:fermer|clore|clôturer|
    ignorer)(?: (?:le ticket|ce ticket|le cas|la demande|ça|mon message|ce message))? | à ignorer |
    (?:le problème est |problème |cest |cest déjà )?(?:réglé|résolu) | plus besoin |
    jai (?:trouvé|résolu) (?:tout seul|toute seule|moi même) | ne pas (?:en )?tenir compte |
    olv[íi]d(?:alo|enlo|a esto) | falsa alarma |
    (?:ya )?se (?:arregló|resolvió|solucionó)(?: solo)? |
    (?:ya )?(?:pueden?|puedes|se puede|podéis) (?:cerrar|ignorar)(?:lo)?(?: (?:el|este) (?:caso|
    ticket|issue|mensaje))? | (?:ya |está |quedó )+(?:solucionado|resuelto) |
    ya (?:lo )?(?:resolví|solucioné|arreglé) |
    lo (?:resolví|solucioné|arreglé)(?: yo mism[oa]| sol[oa])? |
    ya no (?:hace falta|es necesario) |
    (?:ignoren|ignorad|cierren)(?: (?:esto|el (?:mensaje|caso)|este caso))? |
    deixa (?:pra|para) lá | esquece(?:m)?(?: isso)? | alarme falso | resolveu sozinho |
    podem? (?:fechar|ignorar|encerrar)(?: (?:o (?:caso|chamado|ticket)|a issue|isso|este))? |
    (?:já |está |foi )+resolvido | (?:já )?resolvi(?: sozinh[oa])? | não precisa mais |
    (?:favor ignorar|desconsiderem?|ignorem)(?: (?:isso|a mensagem|o chamado))? |
    lascia(?:te)? (?:stare|perdere) | falso allarme |
    (?:potete|puoi|si può) chiudere(?: il (?:caso|ticket))? | ho risolto(?: da sol[oa])? |
    risolto da sol[oa] | (?:ignorate|ignora)(?: (?:questo|il messaggio))? | non serve più |
    si è risolto da solo | laat maar | (?:is |zelf |al )+opgelost | kan (?:dicht|gesloten worden) |
    vals alarm | vergeet het(?: maar)? |
    (?:自己)?解決(?:しました|済みです|済みなので|できました|した) |
    (?:消して|削除して)(?:ください|下さい) |
    (?:クローズ|キャンセル|無視)(?:してください|して下さい|します|でお願いします|で大丈夫です) |
    閉じて(?:ください|下さい) | 取り下げ(?:ます|てください) | もう(?:大丈夫|結構)です |
    誤報でした | 忘れてください
    """
)
_BARE = entries(
    """
    (?:you can )?(?:close|cancel|drop)(?: (?:it|that|the))? | (?:cancel|drop) this |
    (?:(?:please|pls|just|you can) )?(?:ignore|disregard|dismiss) (?:this|it|that) |
    (?:please|pls|just) (?:ignore|disregard) | (?:ignore|disregard) (?:please|pls) | closing it |
    (?:scrap|scratch) (?:that|this) | (?:please |pls )?(?:delete|remove) (?:it|this)
    """
)
_OWN = entries(
    rf"""
    {_PROBLEM}(?:was |were |turned out to be |turns out to be )(?:{_CAUSED} )*my(?: {_X}){{1,3}} |
    {_PROBLEM}(?:is )?(?:{_CAUSED} )*my {_OWN_THING} |
    (?:i |had |was |there was |a )*typo in my(?: \w+){{1,3}} |
    (?:i )?had to \w+ my(?: {_X}){{1,3}} | (?:it was )?(?:just|only) me | silly me |
    im (?:dumb|stupid|an idiot|blind) |
    (?:i (?:have )?made|there was|it was)(?: just)? a (?:\w+ )?mistake |
    (?:it )?turn(?:s|ed) out (?:it was |to be )?my(?: {_X}){{1,3}} |
    my(?: own)? (?:mistake|bad|fault|error|misunderstanding|typo|apologies) |
    my {_OWN_THING} (?:was|were|had|wasnt)(?! up to date| fine| ok)(?: \w+){{1,4}} |
    {_PROBLEM}(?:was |is |s |were )?(?:{_X} |{_WRONG} ){{1,6}}(?:on|at|from) (?:my|
    our)(?: own)?[ ](?:side|end|part|machine|laptop|computer|phone|network|browser) |
    (?:it was |was |just )?(?:a )?(?:user|operator|human|layer 8) error | pebkac | mea culpa |
    i (?:just |simply |had |have )*(?:forgot(?:ten)?(?! to (?:attach|mention|say|add|send|upload|
    tell|include|paste|post))|misread|misunderstood|mistyped|overlooked|misconfigured|messed up|
    mixed up)(?: \w+){{0,7}} |
    (?:i (?:was|had|used|have|am|entered|opened|clicked|picked|looked at|was looking at|made|
    was using|was on))[ ](?:\w+ ){{0,4}}(?:wrong|old|outdated|stale|typo|mistake)(?: {_X}){{0,5}} |
    (?:posted in the |it was the |was the )?{_WRONG} | mein(?:e schuld| fehler| irrtum) |
    (?:(?:es|das|der fehler|das problem) )?(?:war|ist|lag|liegt|
    lags) (?:{_X} ){{0,4}}(?:meine?[mrns]?(?: {_X}){{1,3}}|an mir|bei mir) |
    (?:{_X} ){{0,4}}(?:auf meiner seite|bei mir|meinerseits) | (?:bedienungs|anwender)fehler |
    ich (?:hatte|habe) (?:\w+ ){{0,5}}(?:vergessen|verwechselt|übersehen|vertippt|
    falsch\w*)(?: {_X}){{0,3}} |
    (?:cétait|cest|ça venait de|cela venait de|le problème venait de) (?:{_X} ){{0,2}}(?:mon|ma|
    mes)(?: {_X}){{1,3}} | (?:une )?erreur de ma part | (?:{_X} ){{0,4}}(?:de mon côté|chez moi) |
    (?:cétait )?(?:de )?(?:ma faute|mon erreur) | jai (?:oublié|confondu|mal)(?: \w+){{0,6}} |
    (?:era|fue|es) (?:{_X} ){{0,2}}(?:mi|mis)(?: {_X}){{1,3}} | (?:fue )?(?:un )?error mío |
    (?:fue )?(?:culpa mía|mi culpa|mi error) | (?:{_X} ){{0,4}}(?:de mi lado|de mi parte) |
    (?:me equivoqué|olvidé|confundí)(?: \w+){{0,6}} |
    (?:era|foi) (?:{_X} ){{0,2}}(?:o meu|a minha|meu|minha)(?: {_X}){{1,3}} |
    (?:era |foi )?(?:um )?erro meu | (?:foi )?(?:falha|culpa) minha | (?:{_X} ){{0,4}}do meu lado |
    (?:esqueci|confundi|me enganei)(?: \w+){{0,6}} | era (?:il mio|la mia)(?: {_X}){{1,3}} |
    (?:errore mio|colpa mia|mio errore) | (?:{_X} ){{0,4}}da parte mia |
    (?:het )?(?:was|lag aan) mijn(?: {_X}){{1,3}} | mijn (?:fout|schuld) |
    (?:こちら|私|自分|当方)(?:側)?の\w{{0,12}}?(?:ミス|間違い|勘違い|問題|せい|原因)でした |
    (?:設定ミス|勘違い|間違い|操作ミス)でした | 間違えました | \w{{0,10}}?(?:が原因|のせい)でした
    """
)
_WELL = entries(
    rf"""
    {_PROBLEM}(?:is |s |now |all |just |has been |was |got )*(?:work(?:s|ed|ing)?|gone|fixed|
    sorted)(?: (?:now|fine|again|for me|as expected|perfectly|properly|well|ok))* |
    (?:its|thats|(?:it|everything|all)(?: is)?) (?:now )?(?:fine|ok|okay|good|working)(?: (?:now|
    again|for me))* |
    (?:i |we )?(?:have |ve |just |already )*(?:found|spotted|discovered|figured|worked|
    got)(?: out)? (?:it|the (?:problem|issue|cause|error|mistake|bug|reason|culprit)|my (?:mistake|
    error))(?: out| working| to work)?(?: now)? | {_PROBLEM}went away(?: on its own| by itself)? |
    (?:its |it is |this is )?not a bug | no bug | all good(?: now)? |
    all is (?:fixed|well|fine)(?: now)? |
    {_PROBLEM}work(?:s|ing)(?: fine| now)* after \w+ing (?:my|the)(?: {_X}){{1,3}} |
    no (?:issue|problem|bug) on your (?:side|end) |
    \w+ing (?:my|the)(?: {_X}){{1,3}} (?:fixed|solved|resolved) (?:it|this|the problem) |
    ya quedó | (?:jetzt )?zu (?:gehen|funktionieren|laufen) |
    (?:i )?(?:cant|cannot|can not|couldnt) reproduce(?: (?:it|this))?(?: any ?more)? |
    (?:sorry|apologies|my apologies) (?:for|about) (?:all )?(?:the|this|that) (?:noise|false alarm|
    spam|confusion|trouble|fuss|mess) |
    (?:(?:es|das|jetzt|alles|nun) )*(?:geht|läuft|funktioniert|klappt|passt)(?: (?:jetzt|wieder|
    nun|alles|bei mir))* | (?:ist |schon |bereits )*(?:behoben|erledigt) |
    (?:habe? |habs |hab )?(?:(?:den|das) )?(?:problem|fehler|ursache)? ?gefunden | alles gut |
    solved | resolved | withdrawn | closing | ignore | disregard | gelöst | solucionado |
    resuelto | resolvido | risolto | opgelost | cest (?:bon|ok)(?: maintenant)? |
    (?:ça|tout) (?:re)?(?:marche|fonctionne)(?: (?:maintenant|bien))* |
    jai trouvé(?: (?:le problème|la cause|lerreur))? | problème trouvé |
    désolée? (?:pour le|du) (?:bruit|dérangement) |
    ya (?:funciona|está|anda|va)(?: (?:bien|todo))* |
    (?:todo |ahora )*funciona(?: (?:ahora|bien|ya))* |
    encontré (?:el (?:problema|error)|la causa) |
    (?:perdón|disculpen|disculpa) (?:por )?(?:las molestias|la molestia|el ruido) |
    (?:já |agora |está )*(?:funcionando|funcionou)(?: (?:agora|bem))* |
    (?:achei|encontrei) (?:o (?:problema|erro)|a causa) |
    (?:ora |adesso )?funziona(?: (?:ora|adesso|tutto))* | tutto (?:ok|a posto) |
    (?:ho )?trovato (?:il problema|lerrore) | (?:het )?werkt (?:nu|weer)(?: weer)? |
    お騒がせしました | (?:今は|もう)?(?:直りました|動きました|動いています|正常です)
    """
)
_FILLER = entries(
    r"""
    ok(?:ay)? | (?:im |we are )?(?:so |very )?sorry | ah+ | oh+ | oops | whoops | argh | doh |
    ha(?:ha)+ | lol | hm+ | well | actually | please | pls | now | hi | hey | hello | all |
    everyone | team | guys |
    (?:many )?thanks(?: (?:a lot|anyway|though|all|everyone|team|for (?:the|your) (?:help|time|
    quick reply)))? |
    thank you(?: (?:all|anyway|very much|so much|for (?:the|your) (?:help|time)))? | thx | cheers |
    apologies | my apologies | and | because | since | as | so | cause | then | already | just |
    it turns out | turns out | for bothering(?: you)? | sorry to (?:bother|disturb)(?: you)? |
    wait | bitte | danke(?: (?:dir|euch|trotzdem))? | vielen dank | entschuldigung | tut mir leid |
    ach | und | weil | denn | da | merci(?: beaucoup)? | désolée? | pardon | svp |
    sil (?:vous|te) pla[iî]t | et | car | parce que | (?:muchas )?gracias | perd[óo]n | disculpa |
    disculpen | por favor | lo siento | y | porque | obrigad[oa] | desculpa | desculpem? | e |
    grazie | scusate | scusa | per favore | perché | bedankt | dank je | en | omdat |
    すみません(?:でした)? | すいません | ごめんなさい | ありがとうございま(?:す|した) |
    申し訳ありません | 失礼しました | ので
    """
)
_PARTS = (
    (_Part.CLOSE, _CLOSE),
    (_Part.BARE, _BARE),
    (_Part.WELL, _WELL),
    (_Part.OWN, _OWN),
    (_Part.FILLER, _FILLER),
)
_CLAUSE = re.compile(r"[.](?=\s|$)|[,;:!/\n()。、！，…]+|\s[-–—]+\s")
_GOES_ON = re.compile(
    any_of(
        r"""
        but | still | however | again | although | though | except | unless | until | aber |
        trotzdem | immer noch | jedoch | allerdings | mais | pourtant | toujours | encore | pero |
        todavía | aún | sin embargo | mas | porém | ainda | contudo | però | ancora |
        (?<!laat )(?<!het )maar | nog steeds | しかし | でも | まだ | けど | けれど(?:も)? | 再び
        """
    )
)
"""Words that keep a report open, whatever else the message says."""
_HEDGE = re.compile(
    any_of(
        r"""
        i (?:think|guess|believe|suppose) | maybe | perhaps | probably | possibly | apparently |
        not sure | (?:it )?(?:seems|seemed|looks|appears)(?: (?:to be|to|like|that))? |
        (?:ich )?(?:glaube?|denke) | vielleicht | wahrscheinlich | vermutlich | wohl |
        scheint(?: zu)? | je (?:crois|pense)(?: que)? | peut[- ]être | sans doute | on dirait que |
        creo que | quizás | tal vez | parece que | acho que | talvez | credo che | forse |
        misschien | denk ik | 多分 | たぶん
        """
    )
)
_MIGHT = re.compile(
    r"\b(?:might|may|could|must) (?:have been|be)\b"
    r"(?! (?:closed|cancell?ed|dropped|ignored|deleted))"
)
_ABOUT_AUTHOR = re.compile(
    rf"^(?:turns out |it turns out )?(?:i|we) (?:had|was|were|didnt|forgot|needed)\b"
    rf"|^my (?:{_X} ){{0,3}}(?:was|were|had|didnt|has|\w+ed|expired|changed|broke)\b"
)
_MORE_TO_SAY = re.compile(
    any_of(
        rf"""
        {_MORE} | {_NO} | able | reproduced? | told | bugs? | affected | same | well | too |
        questions? | descriptions? | reports? | comments? | titles? | steps | texts? | attach\w* |
        meant | mean | another | also | here | new | better | instead | first | second | next |
        sees? | others? | someone | every\w+ | customers? | users? | errors? |
        forgot to (?:attach|mention|say|add|send|tell|upload)
        """
    )
)
"""Words of a clause that goes on with the report instead of withdrawing it."""
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
    """Return whether the message asks to close the case: a closing phrase, alone or with a reason.

    The reason names the author's own side ("it was my VPN") or says that the problem is over ("it
    works now"); both together close as well. A question, a hedge ("I think"), a word such as "but"
    or "still", any unknown part, and more than `MAX_CLOSE` characters close nothing.
    """
    return _closes(_certain_parts(text))


def is_bare_close(text: str) -> bool:
    """Return whether a closing phrase may also answer a question: "cancel" names a button, too."""
    parts = _certain_parts(text)
    return _Part.BARE in parts and parts <= {_Part.BARE, _Part.FILLER}


def _closes(parts: set[_Part]) -> bool:
    return bool(parts & {_Part.CLOSE, _Part.BARE}) or parts >= {_Part.OWN, _Part.WELL}


def _certain_parts(text: str) -> set[_Part]:
    """Return the kinds of a message's parts; none if one is unknown, or the message is open."""
    words = _lower(text)
    if not _is_short(text) or "?" in words or "？" in words:
        return set()
    if any(open_.search(words) for open_ in (_GOES_ON, _HEDGE, _MIGHT)):
        return set()
    known, unknown = _read(words)
    if not unknown:
        return known
    if known & {_Part.CLOSE, _Part.BARE} and all(_is_about_author(clause) for clause in unknown):
        return known | {_Part.OWN}
    return set()


def _read(text: str) -> tuple[set[_Part], list[str]]:
    """Return the kinds of the parts that are known, and the clauses with an unknown part."""
    clauses = {clause: _parts(clause) for clause in _clauses(text)}
    known = {part for parts in clauses.values() for part in parts or ()}
    return known, [clause for clause, parts in clauses.items() if parts is None]


def _is_about_author(clause: str) -> bool:
    """Return whether a clause tells in the author's words what was wrong on the author's side."""
    return _ABOUT_AUTHOR.search(clause) is not None and _MORE_TO_SAY.search(clause) is None


def _is_short(text: str) -> bool:
    return len(_MENTION.sub("", text).strip()) <= MAX_CLOSE


def _lower(text: str) -> str:
    return text.lower().replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")


def _clauses(text: str) -> list[str]:
    spoken = _EMOJI.sub(",", _MENTION.sub(" ", text))
    return [words for clause in _CLAUSE.split(spoken) if (words := _words(clause))]


@cache
def _patterns() -> list[tuple[_Part, re.Pattern[str]]]:
    """Return the pattern of each known part. Compiled at the first use: it takes 0.2 s of CPU."""
    return [
        (part, re.compile(rf"(?:{entry})(?!{_LETTER})"))
        for part, phrases in _PARTS
        for entry in phrases
    ]


def _parts(clause: str) -> set[_Part] | None:
    """Return the kinds of the parts of a clause; None if a part is unknown.

    The longest known part comes first: "sorry for the noise" is more than "sorry".
    """
    found: set[_Part] = set()
    while clause:
        matches = ((part, pattern.match(clause)) for part, pattern in _patterns())
        ends = [(match.end(), part) for part, match in matches if match]
        if not ends:
            return None
        length, longest = max(ends, key=lambda end: end[0])
        found.add(longest)
        clause = clause[length:].lstrip()
    return found


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
    bare = _EMOJI.sub(" ", _MENTION.sub(" ", text.lower()))
    return " ".join(re.sub(r"[^\w\s']", " ", bare).replace("'", "").split())
