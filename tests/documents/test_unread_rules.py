"""A reading contains all text that a person sees in the document, or names the parts that it left
out.
"""

import pytest

from tests.documents import document_samples as papers
from tests.documents import pdf_samples as pdfs
from tests.documents import word_samples as words
from tests.documents.word_samples import paragraph, run
from threadline.documents.extract import extract_text
from threadline.documents.reader import DocumentRejected

VISIBLE = '<w:vanish w:val="0"/>'
BOX = f"<w:txbxContent>{paragraph('Budget 40,000')}</w:txbxContent>"
PICTURE = '<w:drawing><a:blip r:embed="rId1"/></w:drawing>'
VML_PICTURE = '<w:pict><v:shape><v:imagedata r:id="rId1"/></v:shape></w:pict>'


PDFS = {
    "whole": (papers.pdf("A crane", "Due"), "A crane\n\nDue", ()),
    "text field": (
        pdfs.form("Client:", pdfs.text_field("client", "Harbour Ltd")),
        "Client:\nclient: Harbour Ltd",
        (),
    ),
    "field with a tooltip": (
        pdfs.form("Client:", pdfs.text_field("f1_01[0]", "Harbour", **{"/TU": "Client's name"})),
        "Client:\nClient's name: Harbour",
        (),
    ),
    "empty field": (pdfs.form("Client:", pdfs.text_field("client", " ")), "Client:", ()),
    "hidden field": (
        pdfs.form("Client:", pdfs.text_field("client", "obey me", **{"/F": 2})),
        "Client:",
        (),
    ),
    "field for a password": (
        pdfs.form("Client:", pdfs.text_field("pin", "1234", **{"/Ff": 1 << 13})),
        "Client:",
        (),
    ),
    "ticked box": (pdfs.form("Form", pdfs.button("insured", "/Yes")), "Form\ninsured: yes", ()),
    "empty box": (pdfs.form("Form", pdfs.button("insured", "/Off")), "Form", ()),
    "button to push": (
        pdfs.form("Form", pdfs.button("print", "/1", **{"/Ff": 1 << 16})),
        "Form",
        (),
    ),
    "radio buttons": (
        pdfs.form(
            "Form",
            {"/AS": "/Off"},
            {"/AS": "/monthly"},
            parent={"/T": "paid", "/FT": "/Btn", "/Ff": 1 << 15, "/V": "/monthly"},
        ),
        "Form\npaid: monthly",
        (),
    ),
    "radio buttons by number": (
        pdfs.form(
            "Form",
            {"/AS": "/1"},
            parent={"/T": "paid", "/FT": "/Btn", "/V": "/1", "/Opt": ["per year", "per month"]},
        ),
        "Form\npaid: per month",
        (),
    ),
    "choices": (
        pdfs.form(
            "Form",
            {
                "/FT": "/Ch",
                "/T": "ports",
                "/V": ["de-ham", "nl-rtm"],
                "/Opt": [["de-ham", "Hamburg"], ["nl-rtm", "Rotterdam"]],
            },
        ),
        "Form\nports: Hamburg, Rotterdam",
        (),
    ),
    "field within a field": (
        pdfs.form("Form", {"/T": "city", "/V": "Kiel"}, parent={"/T": "client", "/FT": "/Tx"}),
        "Form\nclient.city: Kiel",
        (),
    ),
    "two widgets of a field": (
        pdfs.form(
            "Form",
            {"/Rect": [0, 0, 9, 9]},
            {},
            parent={"/T": "client", "/FT": "/Tx", "/V": "Harbour"},
        ),
        "Form\nclient: Harbour",
        (),
    ),
    "form with static XFA": (
        pdfs.static_xfa_form("Client:", "Harbour Ltd"),
        "Client:\nclient: Harbour Ltd",
        (),
    ),
    "typewriter": (pdfs.typed_onto("Client:", "Harbour Ltd"), "Client:\nHarbour Ltd", ()),
    "comment": (pdfs.commented("A crane", "too dear?"), "A crane", ("1 comment",)),
    "scans": (
        pdfs.scan("A crane", "Due", scans=10),
        "A crane\n\nDue",
        ("pages 3–12 (no text, like a scan or a drawing)",),
    ),
    "scan with a stamp": (
        pdfs.stamped_scan("ACME-000017"),
        "ACME-000017",
        ("page 1 (mostly a picture, like a scan)",),
    ),
    "scan with recognised text": (
        pdfs.stamped_scan("A crane for the harbour. " * 6),
        ("A crane for the harbour. " * 6).strip(),
        (),
    ),
    "letterhead": (pdfs.letterhead("A crane"), "A crane", ()),
    "letters as curves": (
        pdfs.outlines(),
        "A crane",
        ("page 2 (no text, like a scan or a drawing)",),
    ),
    "blank page": (pdfs.blank_page("A crane"), "A crane", ()),
    "font without letters": (
        pdfs.unmapped_font("A crane"),
        "A crane",
        ("page 2 (a font that does not map to letters)",),
    ),
    "damaged page": (
        pdfs.with_broken_page("A crane", "Budget", "Due"),
        "A crane\n\nDue",
        ("page 2 (damaged)",),
    ),
    "attachments": (
        pdfs.with_attachments(papers.pdf("A crane"), ["plan.pdf", "prices.xlsx"]),
        "A crane",
        ("attached files: plan.pdf, prices.xlsx",),
    ),
}


@pytest.mark.parametrize("case", PDFS)
def test_reading_of_a_pdf_is_whole_or_names_missing_parts(case: str) -> None:
    content, text, unread = PDFS[case]
    read = extract_text(content, "pdf")
    assert (read.text, read.unread) == (text, unread)


WORDS = {
    "whole": (papers.word("A crane"), "A crane", ()),
    "header and footer": (
        words.with_edges("A crane", "ACME — confidential", "RFP 17"),
        "A crane\n\nHeader: ACME — confidential\nFooter: RFP 17",
        (),
    ),
    "footnote": (
        words.with_note("The price", "without VAT"),
        "The price [Footnote: without VAT] follows",
        (),
    ),
    "endnote": (
        words.with_note("The price", "without VAT", "endnote"),
        "The price [Endnote: without VAT] follows",
        (),
    ),
    "text box": (
        words.body(
            f"<w:p>{run('A crane')}<w:r><mc:AlternateContent>"
            "<mc:Choice "
            f'Requires="wps"><w:drawing><wps:txbx>{BOX}</wps:txbx></w:drawing></mc:Choice>'
            f"<mc:Fallback><w:pict><v:textbox>{BOX}</v:textbox></w:pict></mc:Fallback>"
            "</mc:AlternateContent></w:r></w:p>"
        ),
        "A crane\nBudget 40,000",
        (),
    ),
    "text box only for old programs": (
        words.body(
            f"<w:p>{run('A crane')}<w:r><mc:AlternateContent>"
            '<mc:Choice Requires="wpg"><w:drawing/></mc:Choice>'
            f"<mc:Fallback><w:pict><v:textbox>{BOX}</v:textbox></w:pict></mc:Fallback>"
            "</mc:AlternateContent></w:r></w:p>"
        ),
        "A crane\nBudget 40,000",
        (),
    ),
    "tracked move": (
        words.body(
            f"<w:p><w:moveFrom>{run('Budget 40,000')}</w:moveFrom></w:p>{paragraph('A crane')}"
            f"<w:p><w:moveTo>{run('Budget 40,000')}</w:moveTo></w:p>"
        ),
        "A crane\nBudget 40,000",
        (),
    ),
    "tracked changes": (
        words.body(
            "<w:p><w:del><w:r><w:delText>Budget 30,000</w:delText></w:r></w:del>"
            f"<w:ins>{run('Budget 40,000')}</w:ins></w:p>"
        ),
        "Budget 40,000",
        ("text that tracked changes delete",),
    ),
    "hidden text": (
        words.body(paragraph("A crane") + f"<w:p>{run('Obey me', '<w:vanish/>')}</w:p>"),
        "A crane",
        ("hidden text",),
    ),
    "text that is visible again": (
        words.body(f"<w:p>{run('A crane', VISIBLE)}</w:p>"),
        "A crane",
        (),
    ),
    "text hidden by a style": (
        words.hidden_by_style("A crane", "Obey me"),
        "A crane",
        ("hidden text",),
    ),
    "comment": (words.with_comment("A crane", "too dear?"), "A crane", ("1 comment",)),
    "pictures": (
        words.body(
            paragraph("A crane")
            + f"<w:p><w:r>{PICTURE}</w:r><w:r>{VML_PICTURE}</w:r><w:r><mc:AlternateContent>"
            "<mc:Choice "
            f'Requires="wps">{PICTURE}</mc:Choice><mc:Fallback>{VML_PICTURE}</mc:Fallback>'
            "</mc:AlternateContent></w:r></w:p>"
        ),
        "A crane",
        ("3 pictures",),
    ),
    "chart": (
        words.body(
            paragraph("A crane") + "<w:p><w:r><w:drawing><c:chart/></w:drawing></w:r></w:p>"
        ),
        "A crane",
        ("1 chart",),
    ),
    "embedded workbook": (
        words.body(
            paragraph("A crane")
            + "<w:p><w:r><w:object><v:shape><v:imagedata/></v:shape><o:OLEObject/>"
            "</w:object></w:r></w:p>"
        ),
        "A crane",
        ("1 embedded object",),
    ),
    "SmartArt": (words.smart_art("A crane", "Lift"), "A crane\n\nLift", ()),
    "formula": (
        words.body("<w:p><m:oMath><m:r><m:t>a=b</m:t></m:r></m:oMath></w:p>"),
        "a=b",
        (),
    ),
    "boxes to tick": (
        words.body(
            '<w:p><w:r><w:sym w:font="Wingdings" w:char="F0FE"/></w:r>'
            + run(" insured")
            + "</w:p>"
            "<w:p><w:r><w:fldChar><w:ffData><w:checkBox><w:default "
            'w:val="0"/><w:checked/></w:checkBox>'
            f"</w:ffData></w:fldChar></w:r>{run('certified')}</w:p>"
            '<w:p><w:r><w:fldChar><w:ffData><w:checkBox><w:default w:val="0"/></w:checkBox>'
            f"</w:ffData></w:fldChar></w:r>{run('bonded')}</w:p>"
        ),
        "☒ insured\n☒ certified\n☐ bonded",
        (),
    ),
    "choice of a form": (
        words.body(
            f'<w:p>{run("Port: ")}<w:r><w:fldChar><w:ffData><w:ddList><w:result w:val="1"/>'
            '<w:listEntry w:val="Hamburg"/><w:listEntry w:val="Rotterdam"/></w:ddList></w:ffData>'
            "</w:fldChar></w:r></w:p>"
        ),
        "Port: Rotterdam",
        (),
    ),
    "numbers of a list": (
        words.listed("A crane", "List Number"),
        "A crane",
        ("automatic numbers of headings and lists",),
    ),
    "numbers of a paragraph's own": (
        words.numbered("A crane"),
        "A crane",
        ("automatic numbers of headings and lists",),
    ),
    "list with bullets": (words.listed("A crane", "List Bullet"), "A crane", ()),
    "list without numbers": (
        words.body(
            '<w:p><w:pPr><w:pStyle w:val="ListNumber"/><w:numPr><w:numId '
            'w:val="0"/></w:numPr></w:pPr>'
            f"{run('A crane')}</w:p>"
        ),
        "A crane",
        (),
    ),
    "Strict Open XML": (
        words.strict("A crane", "for the harbour"),
        "A crane\nfor the harbour",
        (),
    ),
    "inserted file next to text": (
        words.body(paragraph("A crane") + '<w:altChunk r:id="rId1"/>'),
        "A crane",
        ("1 inserted file (saving the document in Word includes it)",),
    ),
}


@pytest.mark.parametrize("case", WORDS)
def test_reading_of_a_word_document_is_whole_or_names_missing_parts(case: str) -> None:
    content, text, unread = WORDS[case]
    read = extract_text(content, "docx")
    assert (read.text, read.unread) == (text, unread)


REFUSED = {
    "dynamic form": ("form.pdf", pdfs.dynamic_form(), "is a dynamic form (XFA)"),
    "dynamic form with its flag set": (
        "form.pdf",
        pdfs.dynamic_form(rendering=True, listed=True),
        "is a dynamic form (XFA)",
    ),
    "dynamic form with fields": (
        "form.pdf",
        pdfs.dynamic_form(listed=True),
        "is a dynamic form (XFA)",
    ),
    "portfolio": (
        "all.pdf",
        pdfs.with_attachments(papers.pdf("Open this portfolio"), ["rfp.pdf"], portfolio=True),
        "is a PDF portfolio",
    ),
    "only scans": (
        "scan.pdf",
        pdfs.scan(scans=2),
        (
            "contains no text that can be read (not read: pages 1–2 (no text, like a scan or a "
            "drawing))"
        ),
    ),
    "only an inserted file": (
        "brief.docx",
        words.inserted_file("A crane"),
        "(not read: 1 inserted file (saving the document in Word includes it))",
    ),
    "only hidden text": (
        "brief.docx",
        words.body(f"<w:p>{run('Obey me', '<w:vanish/>')}</w:p>"),
        "(not read: hidden text)",
    ),
    "Word template": ("brief.dotx", words.template("A crane"), "is a Word template"),
    "Excel": ("prices.xlsx", papers.office_file(), "is an Excel workbook"),
    "PowerPoint": (
        "deck.pptx",
        papers.office_file("presentationml.presentation"),
        "is a PowerPoint presentation",
    ),
    "Visio": ("plan.vsdx", papers.office_file("visio.drawing"), "is an Office file"),
    "OpenDocument": ("brief.odt", words.open_document(), "is an OpenDocument file"),
    "Windows-1252": (
        "brief.txt",
        "Kräne für Köln, Preise in €".encode("cp1252"),
        "not in Unicode",
    ),
    "Windows-1251": ("brief.txt", "Кран для порта".encode("cp1251"), "not in Unicode"),
    "GBK": ("brief.txt", "港口起重机采购项目".encode("gbk"), "not in Unicode"),
    "Shift-JIS": ("brief.md", "港湾クレーンの調達".encode("shift_jis"), "save it as UTF-8"),
    "UTF-8 that breaks off": ("brief.txt", "Kran für Köln ü".encode()[:-1], "its byte 17 is not"),
    "UTF-16 without a mark": ("brief.txt", "A crane".encode("utf-16-le"), "cannot be read"),
    "RTF": ("brief.txt", rb"{\rtf1\ansi A crane\par}", "is a Rich Text file (RTF)"),
    "PostScript": ("brief.txt", b"%!PS-Adobe-3.0\n(A crane) show", "is a PostScript file"),
    "XML": ("brief.txt", b"<?xml version='1.0'?><w:wordDocument/>", "is an XML file"),
    "web archive": (
        "brief.txt",
        b"MIME-Version: 1.0\nContent-Type: multipart/related",
        "web archive",
    ),
    "PGP": ("brief.txt", b"-----BEGIN PGP MESSAGE-----\n\nhQEMA", "encrypted message (PGP)"),
    "old Word": ("brief.doc", papers.old_office("WordDocument"), "is an old Word file (DOC)"),
    "old Excel": ("prices.xls", papers.old_office("Workbook"), "is an old Excel file (XLS)"),
    "old PowerPoint": ("deck.ppt", papers.old_office("PowerPoint Document"), "(PPT)"),
    "Outlook": ("mail.msg", papers.old_office("__substg1.0_0037001F"), "Outlook message"),
    "password": ("brief.docx", papers.old_office("EncryptedPackage"), "has a password"),
    "empty file": ("brief.txt", b"", "is empty"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_file_that_would_be_misread_is_refused(case: str) -> None:
    name, content, reason = REFUSED[case]
    with pytest.raises(DocumentRejected) as told:
        extract_text(content, name.rpartition(".")[2])
    assert reason in str(told.value)


def test_pages_after_a_long_text_are_named() -> None:
    read = extract_text(papers.pdf(*["word " * 40_000] * 8), "pdf")
    cut = "text after the first 1,000,000 characters"
    assert read.unread == ("pages 7–8 (too long a text)", cut)
