"""The words of the rule that reads a report's severity: one list for each slot (`severity.py`).

A list separates its entries by ` | `, as `threads/phrases.py` reads them. An entry is a regular
expression in lower case, in English, German, French, Spanish, Portuguese, Italian, Dutch or
Japanese.
"""

from threadline.threads.phrases import any_of


def either(*lists: str) -> str:
    """Return a pattern for an entry of any of the lists."""
    return rf"(?:{'|'.join(lists)})"


# Things: the product, its vital functions, records and secrets
SITE = any_of(
    r"""
    web ?sites? | sites? | web ?shop | shop | (?:web ?|online ?)?store | storefront |
    platform | prod(?:uction)? | home ?page | front ?page |
    every (?:\w+ )?(?:page|request|endpoint|service|call) | workspace | web ?app |
    all (?:\w+ )?(?:pages|requests|services|systems|endpoints|regions|servers) | portal |
    marketplace | everything | nothing |
    (?:whole|entire|complete) (?:app|application|system|product|service|api) | web ?seite |
    (?:die|unsere|ganze) seite | plattform | (?:ganze|gesamte) (?:system|anwendung) | alles |
    boutique | plateforme | tout | tienda | sitio | p[áa]gina web | la web | plataforma |
    producci[óo]n | todo | loja | produ[çc][ãa]o | tudo | sito | negozio | piattaforma |
    winkel | サイト(?:全体)? | 本番(?:環境)? | ショップ
    """
)
APP = any_of(
    """
    (?:the|our|your|this|main|public|production) (?:app|application|system|service|api|server|
    database) | production database | (?:^|(?<=, ))(?:we|app|system|service|api|server) |
    das (?:ganze )?system | l'application | le syst[èe]me | el sistema | la aplicaci[óo]n |
    o sistema | o aplicativo | il sistema | het systeem | システム(?:全体)? | サービス(?:全体)?
    """
)
PART = (
    r"(?! (?:buttons?|labels?|icons?|fields?|texts?|images?|links?|history|reports?|exports?"
    r"|lists?|filters?|overview|statistics|summary|totals?|terms|reminders?|logos?|headings?))"
)
VITAL = any_of(
    rf"""
    (?:check-?outs?|(?:\w+ )?payments?|cards?|transactions|log-?ins?|sign-?ins?|sso|
    authentication|ordering){PART} | (?:sign|log) in(?= (?:fails|failed|is|does|returns)) |
    kasse | (?:be)?zahlung(?:en)? | anmeldung | bestellvorgang | paiements? | connexion |
    pagos? | pagamentos? | inicio de sesi[óo]n | pagament[io] | ログイン | 決済 | 支払い | 注文
    """
)
RECORDS = any_of(
    """
    data | databases? | db | orders? | records? | invoices? | customers? | accounts? | files? |
    uploads? | documents | messages | tickets | tables? | backups? | bookings? |
    subscriptions? | contracts | transactions | projects | daten | datenbank | bestellungen |
    rechnungen | kundendaten | donn[ée]es | commandes | factures | datos | pedidos | facturas |
    dados | faturas | dati | ordini | bestellingen | データ | 注文 | 顧客情報
    """
)
SECRETS = any_of(
    """
    personal (?:information|details) | (?:bank|card|account) (?:details|numbers|balances) |
    balances | (?:customer|user|patient|client) (?:information|files|details|addresses) |
    medical data | passwords? | api keys? | keys | tokens? | credentials |
    customer (?:data|list) | personal data | card numbers | private (?:data|messages) |
    user data | e-?mail addresses | credit cards? | (?:customer|user) (?:database|table) |
    passports? | buckets? | backups? | (?:customer|patient|medical) records | kundendaten |
    passwörter
    """
)

# People, and how many
PERSON = r"(?:user|customer|client|visitor|buyer|shopper|merchant|seller|member|patient|tenant)"
PEOPLE = rf"(?:{PERSON}s|people)"
NOBODY = any_of(
    rf"""
    nobody | no ?one | no[nt] (?:a single|one) (?:user|customer) | none of (?:our|the|my) \w+ |
    (?:no|not a single|not one) (?:{PERSON}|{PEOPLE}) | niemand | keiner |
    kein (?:kunde|nutzer|benutzer) | personne n | personne ne | aucun (?:client|utilisateur) |
    nadie | ning[úu]n (?:cliente|usuario) | ningu[ée]m | nenhum (?:cliente|usu[áa]rio) |
    nessuno | 誰も | だれも | 全員 | 全ユーザー? | 全ての(?:お客様|ユーザー)
    """
)
ALL_PEOPLE = any_of(
    rf"""
    everybody | everyone | {PEOPLE} | (?:whole|entire) (?:company|team|office) |
    (?:every|each) (?:single )?{PERSON} | alle (?:kunden|nutzer|benutzer) | kunden | nutzer |
    (?:tous )?les (?:clients|utilisateurs) | los (?:clientes|usuarios) | todos |
    os (?:clientes|usu[áa]rios) | clientes | i clienti | tutti | klanten | 全員 | 全ユーザー? |
    全てのユーザー | すべてのユーザー | お客様
    """
)
MANY_PEOPLE = any_of(
    rf"""
    (?:many|several|multiple|most|a lot of|lots of|dozens of|hundreds of|thousands of|all|any|
    (?:large|big) (?:part|number|share) of|half of|more than half|mostly)(?: of)?(?: our|
     the)?(?: \w+)? (?:{PEOPLE}|them|teams|integrations|shops|requests|calls|logins) |
    (?:every|no) (?:{PERSON}|team) | everyone | everybody | anyone | anybody |
    viele (?:kunden|nutzer) |
    \d{{1,2}} ?% of(?: all| our| the)?(?: \w+)? (?:users|customers|requests|logins|orders|
    payments) | beaucoup de | plusieurs (?:clients|utilisateurs) |
    muchos (?:clientes|usuarios) | muitos (?:clientes|usu[áa]rios) | molti (?:clienti|utenti) |
    多くの(?:お客様|ユーザー)
    """
)
WHOLE_AMOUNT = any_of(
    """
    today's | yesterday's | this week's | all(?: of)? | every | entire | whole | thousands of |
    hundreds of | our | production | customer | 100 ?% | alle | s[äa]mtliche | unsere |
    toutes? | tous | nos | todos | todas | tutt[ie] | 全て?の? | すべての
    """
)
ALL_STRONG = any_of(
    rf"""
    everybody | everyone |
    (?:every|each|all|all our|all the)(?: single)? (?:{PERSON}|{PEOPLE}) |
    (?:every|all) (?:\w+ )?(?:requests?|regions|pages?|countries|calls) | worldwide | überall |
    partout | (?:whole|entire) (?:company|team) | (?:all|every) (?:\w+ )?networks? |
    en todas partes
    """
)
FOR_ALL = any_of(
    """
    (?:for|by|to|affects|affecting) (?:everyone|everybody|anyone|anybody|all|every|any) |
    100 ?% | worldwide | not just me | across the board | für (?:jeden|alle) | bei allen |
    pour tou[st] | tout le monde | para todos | per tutti | 全員
    """
)
ALL_OF_THEM = any_of(
    """
    all | every | each | any | 100 ?% of | alle | jede | tous les | todos los | todos os | 全ての?
    """
)

# Outages and failures
IS = r"(?:is|are|'s|'re|has been|have been|went|gone|goes|still|looks|seems|stays|keeps going)"
DOWN = any_of(
    rf"""
    {IS}(?: (?!(?:not|never)\b)\w+)? down | offline |
    unreachable | inaccessible | unresponsive | out of service |
    dead | (?:can't|cannot) be (?:opened|reached|accessed|loaded) |
    (?:does not|doesn't) resolve | (?<!not )unavailable |
    (?:not|isn't|aren't|no longer) (?:reachable|available|accessible) |
    (?:ist|sind|komplett) (?:\w+ )?(?:down|weg|tot) |
    nicht (?:mehr )?(?:erreichbar|verfügbar) | ausgefallen | liegt lahm |
    (?:en panne|hors service|hors ligne|inaccessibles?) | ca[íi]d[oa]s? |
    no est[áa] disponible | inaccesible | fuera de servicio | fora do ar | caiu |
    indispon[íi]vel |
    (?:broke|breaks|took down|takes down|killed) (?:everything|the (?:whole |entire )?(?:site|
    shop)) | è giù | non (?:è )?raggiungibile | ligt (?:eruit|plat) | onbereikbaar | ダウン |
    落ちて | つながらない | 繋がりません | (?:アクセス|接続)でき(?:ない|ません) | 停止して
    """
)
BARE_DOWN = any_of(
    """
    down
    """
)
VANISHED = any_of(
    """
    (?:(?:is|has) (?:gone|crashed|dead)|crashed|(?:won't|doesn't) come (?:up|back))
    """
)
END = (
    r"(?=$|[,:!]| (?:any ?more|at all|since|for|after|right|now|today|and|because|due|everywhere))"
)
DOES_NOT_WORK = any_of(
    rf"""
    (?:does(?:n't| not)|do(?:n't| not)|won't|will not|can't|cannot) (?:load|open|respond|work|
    start){END} | (?:is|are) not (?:loading|responding|working){END} |
    (?:isn't|aren't) (?:loading|responding|working){END} | (?:loads|works){END} |
    no longer (?:loads?|opens?|responds?|works?){END} |
    (?:returns?|returning|gives?|giving|throws?|shows?|serves?|with)(?: an?|
     only)?(?: http)?(?: error)? 50[0-4] | time[sd]? out | timing out |
    funktioniert (?:gar )?nicht(?: mehr)? | geht nicht mehr | lädt nicht(?: mehr)? |
    ne (?:marche|fonctionne|répond|charge) plus | no (?:funciona|carga|responde) |
    não (?:funciona|carrega|abre|responde) | non funziona |
    動かない | 動きません | 表示されません | 開けません
    """
)
WORKS = any_of(
    rf"""
    (?:loads?|works?|responds?|opens?){END} | marche | fonctionne | funciona | funktioniert
    """
)
FAILS = any_of(
    r"""
    fails? | failing | failed | broken | declined | rejected | refused | crash(?:es|ed|ing)? |
    stopped | errors? | down | unavailable | not working |
    (?:does|do)(?:n't| not) (?:work|go through) | stopped working | impossible | not possible |
    hangs? | stuck | http 50\d | time-?outs? | timed? out | 50[0-4] | 530 | fehler | blank |
    never arrives? | hours? late | delayed | drop | dropped | fehlgeschlagen | schlägt fehl |
    schlagen fehl | kaputt | échou\w+ | refus[ée]s? | fall(?:a|an|ando) | erreur |
    rechazad[oa]s | falha\w* | recusad[oa]s | エラー | 失敗 | できない | できません
    """
)
IMPOSSIBLE = any_of(
    """
    impossible | not possible | no longer possible | nicht (?:mehr )?m[öo]glich |
    impossibles? | imposible | imposs[íi]vel | impossibile
    """
)

PRODUCT = either(SITE, APP)
FAILURE = either(FAILS, DOES_NOT_WORK)
IS_DOWN = any_of(rf"{IS} down")
NOTHING = any_of(
    "nothing | no results | no pages? | none of the pages | not a single page | rien ne | nada"
)
ENTIRELY_BROKEN = any_of("(?:completely|totally|entirely) (?:broken|unusable)")
ERROR = any_of("errors? | http 50[0-4] | 50[0-4]")
IMPOSSIBLE_TO = any_of("impossible de")
GETS_NOT = any_of("(?:do|does|did)(?:n't| not) (?:receive|get)")
FUNCTION = any_of(r"[^\W\d][\w-]*")
NOBODY_NEGATED = any_of(r"kein (?:kunde|nutzer) | (?:personne|aucun \w+) n")
OF_TODAY = any_of("(?:of|from) (?:today|yesterday|this week)")
FROM = any_of("of | from | von | de")

# Abilities and actions
CANNOT = any_of(
    r"""
    can't(?! be) | cant | can ?not(?! be) | unable to | not able to | aren't able to |
    couldn't | could not | fail to | können(?: \w+){0,3} nicht |
    ne peuvent (?:pas|plus) | no pueden | não (?:conseguem|podem) | non (?:riescono|possono) |
    kunnen (?:\w+ )?niet
    """
)
CAN = any_of(
    """
    can | could | is able to | was able to | gets | manages to | kann(?: sich)?(?: mehr)? |
    können |
    peut | puede | pode | consegue | riesce a | può | kan
    """
)
I_CANNOT = any_of(
    """
    (?:i|we) (?:can't|cant|can ?not|am unable to|are unable to) |
    (?:^|(?<=, ))can(?:'t|t|not) | (?:ich|wir) (?:kann|können)(?: mich| uns)? nicht |
    (?:je ne peux|on ne peut) (?:pas|plus) | no puedo | não consigo | non riesco a
    """
)
ACTION = any_of(
    r"""
    (?:take|accept|process|make|receive) (?:\w+ )?payments? | log ?-?(?:back )?in |
    sign ?-?(?:back )?in | get in(?:to)? | do anything | work | pay | check ?-?out | order |
    buy | purchase | authenticate | place \w+ ?orders? | place an order |
    (?:access|open|use|reach|enter) (?:the |our |their )?(?:site|website|system|app|shop|store|
    accounts?|platform|product|service|api) | access anything | use anything | connect |
    complete (?:\w+ )?(?:orders?|purchases?|payments?) | (?:be)?zahlen | einloggen | anmelden |
    bestellen | einkaufen | payer | commander | se connecter | (?:se )?connecter | pagar |
    comprar | iniciar sesi[óo]n | entrar | fazer login | finalizar | pagare | accedere |
    inloggen | betalen | ログイン | 決済 | 支払い? | 注文 | 購入
    """
)
SAVE = any_of(
    """
    save | submit | speichern | enregistrer | guardar | salvar | salvare | 保存
    """
)
CANNOT_AFTER = any_of(
    """
    できない | できません | 出来ない | 出来ません
    """
)
LOCKED_OUT = any_of(
    """
    locked out | ausgesperrt | logged out and
    """
)

# Lost data, exposed data, lost money
LOST = any_of(
    """
    lost | gone | (?:is|are) missing(?! in) | deleted | wiped | erased | vanished |
    disappeared | overwritten | corrupted | dropped | destroyed | weg | verloren | gelöscht |
    verschwunden | perdue?s? | disparu(?:es?|s)? | supprimée?s | effacée?s | perdid[oa]s |
    perdieron | borrad[oa]s | borraron | desaparecid[oa]s | desaparecieron | sumiram |
    apagad[oa]s | perdemos | persi | spariti | kwijt |
    消えました | 消えて | 消えた | 失われ(?:まし)?た | 削除され
    """
)
EMPTIED = any_of(
    """
    deleted | wiped | erased | emptied | truncated | dropped | corrupted | removed |
    destroyed | overwritten | lost | overwrote | cleared | gone | vanished | disappeared |
    gelöscht | geleert | effacée? | vidée? | borrad[oa] | apagad[oa]
    """
)
STORES = any_of(
    r"""
    (?:production|prod|live|main) (?:db|database|data|server|directory|bucket|volume) |
    (?:\w+ )?(?:database|datenbank) |
    (?:customers?|users|orders|subscriptions|accounts|payments|invoices|bookings) table |
    base de données | base de datos | banco de dados | all backups
    """
)
BY_SYSTEM = any_of(
    r"""
    by (?:the|an?|our|last night's) (?:\w+ )?(?:job|deploy|deployment|migration|script|cleanup|
    update|upgrade|sync|release|import)
    """
)
DATA_LOSS = any_of(
    r"""
    data[ -]?loss | loss of (?:\w+ )?data |
    data (?:is|was|are|were|got|has been|is being) lost |
    lost (?:about |around |over )?\d+ (?:\w+ )?(?:orders|sales|bookings|records|customers|
    payments) |
    (?:orders?|bookings?|records|payments|invoices|data)(?: are| is)? missing (?:from|
    in) (?:the|our) (?:\w+ )?(?:db|database) |
    lost (?:our |all |customer |all our |all my )?data | datenverlust | perte de données |
    pérdida de datos | perda de dados | perdita di dati |
    データ(?:損失|消失|が(?:全部|すべて|全て)?消え)
    """
)
BREACH = any_of(
    r"""
    (?:security|data|gdpr|privacy|account) (?:breach|leak) | security (?:hole|incident) |
    data is leaking | leak of \w+ data |
    (?:was|were|got|been|is|are) (?:hacked|compromised|breached) | ransom(?:ware)? |
    encrypted by | we(?:'ve)? been hacked | attackers? | hackers? | phished |
    (?:third party|stranger|intruder)(?: has)? (?:gained|got|had) access |
    (?:someone|somebody|they) hacked | defaced | malware |
    (?:stole|stolen|leaked) (?:\w+ )?(?:tokens?|keys?|passwords?) |
    (?:someone|somebody) (?:got|gained|has) (?:\w+ )?access | unauthori[sz]ed access |
    datenleck | sicherheitsvorfall | gehackt | fuite de données | pirat(?:é|ée|és) |
    fuga de datos | filtración de datos | hackead[oa]s? | vazamento de dados | invadid[oa] |
    情報漏(?:洩|えい) | 個人情報が
    """
)
EXPOSED = any_of(
    r"""
    exposed | stolen | downloaded by | leaked | leaking | public(?:ly)? | unprotected |
    open to the internet | on (?:pastebin|the dark ?web|a forum) | indexed by google |
    (?:in|as) (?:plain|clear) ?text |
    (?:visible|accessible|readable|available) (?:to|for|by) (?:all|any|every)\w* |
    in (?:the|our) logs? | without (?:a password|logging in|login|authentication) |
    öffentlich | ungeschützt
    """
)
SEES = any_of(
    """
    sehen | sees? | seeing | access | view | read | shows? | contains? |
    (?:logged|signed) in(?:to)?(?: as)? | gets? | got | lands? in | landed in | ends? up in |
    ended up in | into | sehe | siehe?t | voi[rst] | veo | ven | vejo | 見え
    """
)
STRANGERS = any_of(
    r"""
    other (?:users?|customers?|people|clients?|patients?|compan(?:y|ies)|tenants?)(?:'s?)? |
    another (?:user|customer|person|client|patient|company|tenant)(?:'s)? |
    some(?:one|body) else(?:'s)? |
    (?:a |an )?(?:\w+ )?different (?:user|customer|person|family|company|account|
    patient)(?:'s)? | (?:a )?strangers?(?:'s?)? | each ?other'?s'? |
    wrong (?:customer|user|person)(?:'s)? | fremde | anderer (?:kunden|nutzer) |
    d'autres (?:clients|utilisateurs) | otros (?:clientes|usuarios) |
    outros (?:clientes|usu[áa]rios) | 他の(?:ユーザー|お客様|顧客)
    """
)
PRIVATE = any_of(
    """
    data | orders? | invoices? | messages? | accounts? | address(?:es)? | profiles? | files |
    documents | e-?mails? | chats? | photos? | rechnungen | baskets? | carts? |
    e-?mail addresses | details | daten | bestellungen | rechnungen | données | commandes |
    datos | pedidos | dados | 情報 | データ | 注文
    """
)
TWICE = any_of(
    r"""
    (?:charged?|billed|debited|deducted|charging|hits?|hitting)(?: \S+){0,4} (?:twice|double|
    (?:\d+|two|three|four|five|six|seven|eight|nine|ten|several|multiple|many) times|
    again and again|repeatedly|too much) |
    (?:double|duplicate|twice)[ -](?:charge[sd]?|charging|billed|billing|payments?|debit) |
    over ?charged | (?:doppelt|zweimal|mehrfach) (?:belastet|abgebucht|berechnet) |
    (?:débité|facturé|prélevé)e?s? (?:deux fois|en double) |
    cobr\w+ (?:dos veces|doble|duplicad[oa]s?) |
    cobr\w+ (?:duas vezes|em dobro|duplicad[oa]s?) | addebitat[oi] due volte |
    二重(?:請求|決済|課金)
    """
)
MONEY_LOST = any_of(
    r"""
    losing (?:money|revenue|sales) | lost (?:money|revenue) |
    money (?:is|was) (?:lost|missing|gone) | (?:pay|paid|paying) twice |
    charg(?:ed|es|ing) (?:the |a )?wrong | (?:never|not|without being) charged |
    giving (?:\w+ )?away | for free since | refunded twice |
    (?:sent|paid|transferred) to the wrong (?:bank )?accounts? |
    (?:refunds?|payouts?|payments?|money)(?: \w+){0,2} to the wrong |
    (?:buy|order|get \w+) for free |
    (?:prices|everything)(?: \w+){1,3} (?:0|zero|free)(?= (?:eur|euro|usd|dollars?)|[ ,]|$) |
    wir verlieren geld | on perd de l'argent | perdiendo dinero | perdendo dinheiro
    """
)
NO_ORDERS = any_of(
    r"""
    (?:no|zero|not receiving(?: any)?|not getting(?: any)?) orders? ?(?:are |is )?(?:coming in|
    arriv\w+|received|go(?:es|ing)? through|since|for|at all) |
    not (?:receiv|gett)ing any (?:new )?orders |
    no (?:\w+ )?(?:payments?|orders?|logins?) (?:goe?s?|comes?|gets?|works?)(?: \w+)? |
    (?:no|zero) (?:successful|new) (?:orders|payments|transactions|sales|logins) |
    we (?:can't|cannot|can not|are unable to) (?:take|accept|process|
    receive) (?:any )?(?:orders|payments)
    """
)

# Failures of one function
OUTAGE = any_of(
    r"""
    (?:total|complete|full|major|massive|global|worldwide|ongoing|site[ -]?wide|system|
    service) outage(?! (?:of|on|page|report|banner|last)) |
    (?:have|having|there is|there's|experiencing|seeing) an? (?:\w+ )?outage | totalausfall |
    ^(?:production |prod )?outage(?! (?:of|on|page|report|banner|last)) |
    panne (?:totale|générale) | caída total | 全面停止 | 全面的にダウン
    """
)
CRASH = any_of(
    r"""
    closes (?:itself|by itself|on its own|immediately|right after) |
    quits (?:itself|immediately) | force[- ]?closes | freezes (?:on|at) (?:start|launch) |
    crash(?:es|ed|ing)?(?! (?:report|log|dump)s?) | stürzt(?: \w+)* ab | abgestürzt | plante |
    se cierra solo | se cierra sola | trava | si blocca | クラッシュ
    """
)
BROKEN_ENTIRELY = any_of(
    """
    (?:completely|totally|entirely|absolutely) (?:broken|unusable|down|dead) |
    (?:is|are) unusable | (?:does|do)(?:n't| not) work at all |
    (?:not|isn't|aren't) working at all | no work-?around |
    not (?:being )?(?:sent|delivered) to (?:anyone|all|any|everyone) | komplett kaputt |
    funktioniert gar nicht | ne (?:marche|fonctionne) plus du tout | no funciona en absoluto
    """
)
MAILS = any_of(
    rf"""
    (?:(?:\w+ )?(?:e-?mails|mails|sms|messages|notifications|codes)) (?:never|no longer|don't|
    do not) (?:arrive|reach|get sent|go out) |
    {PEOPLE} (?:don't|do not|didn't|no longer|are not) (?:receiv|
    get)\w*(?: \w+){{0,2}} (?:mails|emails|e-mails|codes|messages|notifications) |
    (?:e-?mails|mails|codes|notifications) (?:are|were|have)(?: not|n't| no longer|
     never) (?:been |being )?(?:sent|delivered|going out)
    """
)
WORK = any_of(
    r"""
    (?:\w+ )?(?:queues?|jobs|workers|deploys|builds|pipelines?|imports|syncs?)
    """
)
HALTED = any_of(
    """
    stuck | has(?:n't| not) (?:started|moved) | not (?:moving|starting|running) | no job
    """
)
ANYTHING = any_of(
    r"""
    (?:can't|cannot|can not|unable to) (?:\w+ ){1,3}(?:anything|at all)
    """
)
OTHER_ACTION = any_of(
    r"""
    (?!see|find|tell|know|say|read|explain|understand|reproduce|remember)\w+
    """
)
VANISHES = any_of(
    r"""
    (?:are|is|keep|keeps|have|has|were|was|got)(?: been| being| all)? (?:lost|gone|vanish\w+|
    disappear\w+|wiped|erased) | disappear | vanish
    """
)
EMPTY_ANSWER = any_of(
    """
    (?:see|sees|seeing|gets?|getting)(?: an?| only)? (?:http )?(?:50[0-4]|blank page|
    white (?:page|screen)|error page)s?(?: errors?| page)?(?! (?:on|in|at|when|if|for|after))
    """
)
SLOW = any_of(
    r"""
    (?:very|extremely|unbearably|so|super|painfully) slow | lagging | slow |
    takes (?:\w+ )?(?:minutes|hours|forever)
    """
)
HOLE = any_of(
    """
    sql injection | xss | vulnerability | auth(?:entication)? bypass | sicherheitslücke
    """
)

# Urgency and looks
URGENT = any_of(
    """
    urgent(?:ly)? | show-?stopper | (?<!ad )(?<!ad-)(?<!popup )(?<!pop-up )blocker |
    (?:i'm|we're|i am|we are|is|completely) blocked(?! by cors) |
    blocks? (?:us|our|my|the release) | blocking (?:us|our|the release|production) |
    critical (?:bug|issue|problem|error) | dringend | urgente | 至急 | 緊急
    """
)
COSMETIC = any_of(
    r"""
    typos? | cosmetic | misalign\w* | alignment | colou?rs? | wording | nitpick | spelling |
    misspel\w+ | grammar | fonts? | padding | margins? | spacing | blurry | pixelated |
    capitali[sz]ation | off by (?:\w+ )?pixels? | (?:very )?minor(?! versions?) | tippfehler |
    rechtschreib\w+ | schreibfehler | faute (?:de frappe|d'orth\w+) | coquille |
    error (?:tipográfico|ortográfico) | errata | erro de (?:digitação|ortografia) | refuso |
    hard to read | contrast | same (?:height|width|size) | ugly | not centered | uneven |
    overlaps slightly | (?:\w+ )?pixels? (?:higher|lower|wider|off|too) | inconsistent |
    (?:purely|only) visual | visual only |
    (?:heading|headline|title|label|caption)(?: \w+){0,5} (?:says|reads) | 誤字 | 脱字 | 表記ゆれ
    """
)
FUNCTION_FAILS = any_of(
    """
    (?:does|do|did)(?:n't| not) (?:open|work|save|load|start|close|apply|respond) |
    can(?:'t|not) | fails? | errors? (?:when|after) | wrong total | lost | unable
    """
)

# Words that take a sentence out, or limit it
NOT_LIVE = any_of(
    """
    staging | stage | localhost | sandbox |
    (?:test|dev|development|demo|local|uat|qa|preview|build|ci)[ -]?(?:system|server|env|
    environment|instance|site|shop|cluster|machine|database|db) |
    my (?:own |old |local )?(?:laptop|machine|computer|pc|mac|phone|browser|vpn|network|wifi) |
    printers? | blog | wiki |
    (?:docs|documentation|careers|marketing|status) (?:site|page|server) | unit tests? |
    testsystem | testumgebung | serveur de test | environnement de test | servidor de pruebas |
    entorno de pruebas | ambiente de teste | テスト環境 | 検証環境 | ステージング
    """
)
LIVE = any_of(
    """
    production | prod | live | 本番
    """
)
ONLY_MINE = any_of(
    r"""
    only (?:on|for) (?:me|my \w+) | just (?:for )?me | nur bei mir
    """
)
NOT_JUST_ME = any_of(
    """
    not (?:just|only) (?:for )?me
    """
)
WISH = any_of(
    r"""
    what (?:happens|would happen) | we should | please add | could you add |
    can (?:you|we) add | it would be | would be | could be | might be | may be | could lose |
    feature request | what to do | how (?:do|can|should) i | alert for | in case |
    (?:if|when|whenever|once|unless) (?:the |our |a )?(?:\w+ )?(?:is|are|goes|go|were) (?:down|
    offline|unreachable|unavailable) | was passiert | wenn der shop | que se passe |
    qué pasa si | o que acontece se
    """
)
RESOLVED = any_of(
    """
    (?<!not )(?<!n't )resolved | (?:is|are|was|came|come|up and) back(?: up| online| now)? |
    recovered | back (?:up|online|to normal) | work(?:s|ing|ed)? (?:fine )?again |
    fixed (?:now|already|itself) | läuft wieder | geht wieder | funktioniert wieder |
    de nouveau en ligne | remarche | refonctionne | funciona de nuevo | ya funciona |
    resuelto | voltou | funcionando de novo | 復旧し
    """
)
AGAIN = any_of(
    """
    (?:down|broken|failing|offline|gone) again | still (?:down|broken|failing)
    """
)
LIMITED = any_of(
    r"""
    some | several | many | a few | few | certain | (?<!no )one | a single | half of | most |
    sometimes | occasionally | intermittent(?:ly)? | randomly | partial(?:ly)? | only |
    a (?:customer|user|client) of | for me |
    (?:about |around |nearly )?(?!100)\d{1,2} ?%(?: of)? |
    (?:customers|users|people|clients|visitors) (?:in|from|on|with|who|whose|that|outside|
    using|without) |
    (?:in|on|with|using) (?:\w+ )?(?:safari|firefox|chrome|edge|ie|opera|ios|android|iphones?|
    ipads?|mobile|windows|mac(?:os)?|linux|tablets?) | when (?:i|using|you|we|they) |
    with (?:two|old|new|more than) \w+ | with an? (?:voucher|coupon) | einige | manche |
    manchmal | gelegentlich | certains | parfois | algunos | algunas | a veces | alguns |
    às vezes | 一部 | 時々 | たまに
    """
)
