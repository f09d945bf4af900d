"""The page: it shows everything, hides nothing, runs nothing of the data, and needs no network."""

import base64
import hashlib
import re
from html.parser import HTMLParser

import pytest
from cli_store import MANIFEST

from airflow_delta_provider.report import visible

VOID = {"meta", "input"}
DOT = '<i title="U+0020 SPACE">·</i>'


class Page(HTMLParser):
    """The elements of a page: every one closed, in order."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.elements, self.open, self.texts, self.text = [], [], {}, text
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        for tag in self.open[-1:]:
            self.texts.setdefault(tag, []).append(data)

    def of(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]


@pytest.fixture
def page(delta, hostile):
    answer = delta("export", hostile.manifest, "--store", hostile, "--to", "html")
    assert answer.code == 0
    return Page(answer.out)


def test_the_page_of_the_example_tells_everything(delta, signed):
    """Totals, columns, rules, findings, signer, log and facts of the run are on it."""
    out = delta("export", MANIFEST, "--store", signed, "--to", "html", "--trust", signed.trust).out
    page = Page(out)
    assert page.open == []
    sections = [attributes["aria-labelledby"] for attributes in page.of("section")]
    assert sections == ["totals", "columns", "where", "rules", "schema", "contract", "evidence", "run", "records"]
    assert "rows read (adds up)" in out
    assert '<td class="n">1,000</td><td class="n">1,001</td>' in out
    assert '<th scope="row">seen_at</th><td>timestamp_tz</td><td class="n">0</td><td class="n">12</td>' in out
    assert (
        'precision <code>{&quot;mode&quot;:&quot;truncate&quot;,&quot;unit&quot;:&quot;ms&quot;}</code></td><td class="n">12</td>'
        in out
    )
    assert '<th scope="row">amount</th><td>type changed</td><td>decimal(12,2)</td><td>decimal(14,4)</td>' in out
    assert "Signed by a trusted key" in out
    assert "entry 2 of 3" in out
    assert "somewhere" in out
    assert "All 4 records are on this page." in out
    assert '<i class="told">keyed digest</i> 3e1ad9ca190e3a54bb77ef189abcc4dede4cab7929e61538358086c9fe555211' in out


def test_the_same_store_gives_the_same_page(delta, signed):
    """No clock, no random: a page can be compared with an earlier one."""
    words = ("export", MANIFEST, "--store", signed, "--to", "html")
    assert delta(*words).out == delta(*words).out


def test_nothing_of_the_data_becomes_an_element(page):
    """One script and one style, ours; no handler, no address, no inline style."""
    assert page.open == []
    assert len(page.of("script")) == 1
    assert len(page.of("style")) == 1
    assert page.of("img") == []
    for _, attributes in page.elements:
        assert not any(name.startswith("on") or name in ("style", "src") for name in attributes)
    assert all(attributes["href"].startswith("#") for attributes in page.of("a"))
    assert "<script>alert" not in page.text.replace("<mark>", "").replace("</mark>", "")


def test_the_policy_allows_our_script_and_style_and_nothing_else(page):
    """The hashes in the policy are those of what stands in the page."""
    policy = next(a["content"] for a in page.of("meta") if a.get("http-equiv") == "Content-Security-Policy")
    parts = dict(part.strip().split(" ", 1) for part in policy.split(";"))
    assert parts["default-src"] == "'none'"
    for tag in ("script", "style"):
        (text,) = re.findall(f"<{tag}>(.*?)</{tag}>", page.text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert parts[f"{tag}-src"] == f"'sha256-{digest}'"


def test_no_address_of_another_place_is_in_the_page(page):
    """It can be opened in a room without network."""
    assert "http://" not in page.text
    assert "https://" not in page.text


def test_every_control_has_a_name(page):
    """A screen reader says what each field is for."""
    labelled = {attributes["for"] for attributes in page.of("label")}
    controls = {attributes["id"] for tag in ("input", "select") for attributes in page.of(tag)}
    assert controls == labelled == {"search", "category", "column"}
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))


def test_invisible_characters_are_written_out(page):
    """Overrides of direction, zero widths, control characters and other spaces are seen, and move nothing."""
    for name in ("RIGHT-TO-LEFT OVERRIDE", "ZERO WIDTH SPACE", "COMBINING DIAERESIS", "SPACE"):
        assert re.search(rf'title="U\+[0-9A-F]+ {name}"', page.text)
    assert not re.search("[\u202e\u200b\x00]", page.text)


def test_a_long_text_is_cut_round_the_difference(page):
    """60,001 characters of which one differs, far from the beginning."""
    assert page.text.count("60,001 characters, shown are 29,851 to 30,650") == 2
    assert "<mark>x</mark>" in page.text
    assert "<mark>y</mark>" in page.text


def test_a_value_too_long_to_be_recorded_says_so(page):
    """Its length and digest stand for it."""
    assert page.text.count("70,002 bytes, too long to be recorded; SHA-256") == 2


def test_only_the_first_records_are_on_the_page_and_it_says_so(delta, large):
    """Nobody takes a part for the whole; the strip still counts every record."""
    out = delta("export", large.manifest, "--store", large, "--to", "html", "--records", "5").out
    assert "The first 5 of 2,500 records are on this page." in out
    assert out.count('class="record"') == 5
    assert "all 2,500 records are counted" in out
    slices = re.findall(r"<title>\d+ to \d+: (\d+) records</title>", out)
    assert len(slices) == 60
    assert sum(map(int, slices)) == 2500


def test_an_equal_pair_has_a_page_without_records(delta, tmp_path):
    """Zero records are a result, not an error."""
    for name in ("s", "t"):
        (tmp_path / f"{name}.csv").write_text("id,a\n1,x\n")
    spec = tmp_path / "spec.yaml"
    spec.write_text(
        f"name: same\nsource: {{path: '{tmp_path}/s.csv'}}\ntarget: {{path: '{tmp_path}/t.csv'}}\nkey: [id]\n"
    )
    answer = delta("run", spec, "--store", tmp_path / "store", "--json")
    assert answer.code == 0
    page = Page(delta("export", answer.json["manifest"], "--store", tmp_path / "store", "--to", "html").out)
    assert page.open == []
    assert "No row differs, so there is nothing to place." in page.text


@pytest.mark.parametrize(
    ("source", "target", "shown"),
    [
        ("same", "same!", ("same", "same<mark>!</mark>")),
        ("a1c", "a2c", ("a<mark>1</mark>c", "a<mark>2</mark>c")),
        ("x", "x  ", ("x", f"x<mark>{DOT}{DOT}</mark>")),
        ("<b>", "<c>", ("&lt;<mark>b</mark>&gt;", "&lt;<mark>c</mark>&gt;")),
        ("", "a", ("", "<mark>a</mark>")),
        ("ab", "ba", ("a<mark>b</mark>", "<mark>b</mark>a")),
    ],
    ids=["longer", "middle", "blanks", "markup", "empty", "moved"],
)
def test_differing_characters_are_marked(source, target, shown):
    """What is alike is not marked, what differs is, and all of both values is there."""
    assert visible.pair(source, target) == shown


def test_a_combining_mark_is_shown_with_its_letter():
    """The two spellings of one letter look the same but for the mark that is written out."""
    source, target = visible.pair("Zo\u00eb", "Zoe\u0308")
    assert source == 'Zo<mark><b title="U+00EB LATIN SMALL LETTER E WITH DIAERESIS">ë</b></mark>'
    assert target == 'Zo<mark>e<i title="U+0308 COMBINING DIAERESIS">U+0308</i></mark>'
