"""Identifiers, versions, names of languages and scripts without blanks, for the tests of each
search.
"""

FOUND = [
    # The texts of the right document and of another, and questions that the right one answers.
    (
        "Message ERR-4012 is shown.",
        "Message ERR-4021 is shown.",
        ["ERR4012", "err 4012", "err_4012", "4012?"],
    ),
    (
        "Fixed in v2.3.1.",
        "Fixed in v2.13.1, 3.2.1 and v1.2.3.",
        ["2.3.1", "V2.3.1", "version 2.3.1", "2.3"],
    ),
    (
        "It runs on Node.js.",
        "It runs on Django.",
        ["nodejs", "node-js", "NodeJS", "node", "Node.js?"],
    ),
    ("Written in C#.", "Written in C++ and C.", ["C#", "c#?", "(C#)"]),
    ("Written in C++.", "Written in C#, F# and C.", ["C++", "c++", "C++."]),
    ("It targets .NET 8.", "The net price is 8.", [".NET", ".net?"]),
    (
        "Set `maxRetries`.",
        "Set `maxAge`.",
        ["max_retries", "MAX_RETRIES", "max retries", "maxretries", "retry"],
    ),
    ("Set MAX_RETRIES.", "Set MAX_AGE.", ["maxRetries", "max-retries", "max retries"]),
    ("In STATE_RUN it waits.", "In STATE_RUNNING it waits.", ["STATE_RUN", "stateRun"]),
    (
        "The CVE-2026-2332 is closed.",
        "The CVE-2026-2323 is closed.",
        ["2332", "cve 2026 2332", "CVE-2026-2332"],
    ),
    (
        "DS-7604NI-E1/4P records.",
        "DS-7608NI-E1/4P records.",
        ["DS-7604", "DS 7604NI", "ds7604ni", "7604"],
    ),
    (
        "Call HTTPSConnection.",
        "HTTPS for each Connection.",
        ["HTTPSConnection", "https_connection"],
    ),
    ("Open t-shirt sales.", "Open shirt sales.", ["t-shirt", "tshirt", "T-Shirts"]),
    ("Write us an e-mail.", "Write us a letter.", ["email", "emails", "e-mails"]),
    (
        "See src/threadline/store.py.",
        "See src/threadline/search.py.",
        ["store.py", "threadline/store.py"],
    ),
    ("Mail to ops@acme.example.", "Mail to all.", ["acme", "ops@acme.example", "acme.example"]),
    (
        "For refund/cancellation ask us.",
        "For credits ask us.",
        ["refunds", "cancellation", "refund"],
    ),
    ("A List<String> is taken.", "A List is taken.", ["String", "list of strings"]),
    ("Up to 1,200 seats.", "Up to 1,500 seats and 200 rooms.", ["1200 seats", "1,200"]),
    ("Files of 100 GB.", "Files of 50 GB.", ["100GB", "100 gb"]),
    ("Needs Windows 11.", "Needs Windows 10.", ["Windows11", "windows-11"]),
    (
        "Port 10.0.0.1:8443 is open.",
        "Port 10.0.0.2:8080 is open.",
        ["8443", "10.0.0.1", "port 8443"],
    ),
    ("Start with --force.", "Start with --dry-run.", ["--force", "force"]),
    ("Mit ＥＲＲ－４０１２ beginnt es.", "Mit ERR-1 beginnt es.", ["ERR-4012", "4012"]),
    ("第 52-ФЗ 号。", "第 52-АБ 号。", ["52-ФЗ", "фз"]),
    ("退款会在五个工作日内退回。", "密码可以在登录页面更改。", ["退款", "多久能退款？", "工作日"]),
    ("公司税号由管理员填写。", "公司地址由管理员填写。", ["税", "税号"]),
    ("解約は満了の三十日前までです。", "予約は二時間前までです。", ["解約", "解約したい"]),
    ("ファイルは二十五メガまで。", "動画はリンクで。", ["ﾌｧｲﾙ", "ファイル"]),
    ("ลูกค้าขอคืนเงินได้ภายในสามสิบวัน", "กดปุ่มลืมรหัสผ่านที่หน้าเข้าสู่ระบบ", ["คืนเงิน", "ขอคืนเงินได้ไหม"]),
    ("환불은 닷새가 걸립니다.", "비밀번호는 설정에서 바꿉니다.", ["환불", "환불을 받고 싶어요"]),
    ("សំណងត្រូវបានបង់ក្នុងរយៈពេលប្រាំថ្ងៃ", "ពាក្យសម្ងាត់អាចផ្លាស់ប្តូរ", ["សំណង"]),
    (
        "Die Größe der Übersicht stört.",
        "Die Farbe der Kopfzeile stört.",
        ["Größe", "GRÖßE", "Übersicht"],
    ),
    ("Straße und Hausnummer.", "Ort und Postleitzahl.", ["straße", "Straße?"]),
    (
        "Der Fehler ERR-4012 im Zahlungs-Dienst.",
        "Der Fehler ERR-4021.",
        ["4012", "Zahlungsdienst"],
    ),
    ("注文APIがエラー500を返す。", "注文は完了した。", ["注文API", "エラー 500", "api"]),
    ("중국어 Node.js 오류", "중국어 Django 화면", ["nodejs 오류", "오류"]),
    ("เวอร์ชัน v2.3.1 ล่ม", "เวอร์ชัน v2.13.1 ล่ม", ["2.3.1"]),
]
NOT_FOUND = [
    # A text, and a question that shares no word with it.
    ("Written in C++ and C.", "C#"),
    ("Fixed in v2.13.1.", "2.3.1"),
    ("Message ERR-4021.", "4012?"),
    ("密码可以更改。", "退款"),
    ("Wait for 20 days.", "2"),
]
