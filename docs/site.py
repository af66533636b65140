# SPDX-License-Identifier: MIT
"""Builds the documentation site: site.py ROOT OUT. It needs mkdocs with the theme material, and doxygen.

Pages are the project's Markdown files. A link to a source file leads to a page that shows it. The reference
lists the public names of each front (include/cleave/<subject>.hpp), from the comments of the headers.
A link that leads nowhere, a heading that is missing, or a comment that doxygen cannot read is an error."""
import html
import os
import pathlib
import re
import subprocess
import sys
import xml.etree.ElementTree as xml

root, out = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
pages = out / "pages"
faults = []

# ---------------------------------------------------------------- pages

SECTIONS = [  # title, and the files of that section in reading order: FILE or (FILE, title)
    ("Start", ["README.md", "examples/README.md", "docs/coming_from.md"]),
    ("Tutorials", sorted(f"docs/tutorials/{p.name}" for p in (root / "docs/tutorials").glob("*.md"))),
    ("How to", ["docs/adapting.md", "docs/splitting.md", "docs/partitioning.md", "docs/pipe.md", "docs/placing.md", "docs/schedules.md",
                "docs/running.md", "docs/cuda.md"]),
    ("Reference", ["docs/glossary.md", "docs/graph_json.md", "docs/stage_format.md"]),
    ("Explanation", ["docs/architecture.md", "docs/how_partitioners_work.md"]),
    ("Performance", ["docs/performance.md", *sorted(f"docs/performance/{p.name}" for p in (root / "docs/performance").glob("*.md")),
                     "bench/peers/README.md"]),
    ("Decisions", sorted(f"docs/decisions/{p.name}" for p in (root / "docs/decisions").glob("*.md"))),
    ("Project", ["CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"]),
]
for extra in sorted(p.name for p in (root / "docs").glob("*.md")):  # a page that no section names yet
    if not any(f"docs/{extra}" in files for _, files in SECTIONS):
        SECTIONS[2][1].append(f"docs/{extra}")


def place_of(file):
    """Where a Markdown file of the project stands on the site."""
    return "index.md" if file == "README.md" else file.removeprefix("docs/").replace("README.md", "index.md")


places = {f: place_of(f) for _, files in SECTIONS for f in files if (root / f).is_file()}
shown = {}  # source file or folder -> its page


def source_page(file):
    if file not in shown:
        shown[file] = "source/" + file + ".md" if (root / file).is_file() else "source/" + file + "/index.md"
        if (root / file).is_dir():
            for child in sorted((root / file).iterdir()):
                if not child.name.startswith(".") and child.name != "build":
                    relative = str(child.relative_to(root))
                    if child.is_file() and child.suffix in SUFFIXES and relative not in places:
                        source_page(relative)
    return shown[file]


SUFFIXES = {".hpp": "cpp", ".cpp": "cpp", ".cuh": "cpp", ".cu": "cpp", ".py": "python", ".sh": "bash", ".txt": "text",
            ".md": "markdown", ".csv": "text", ".fbs": "text", ".json": "json", ".cmake": "cmake", "": "text", ".cff": "yaml", ".toml": "text"}


def slugs(text):
    """Anchors of the headings of a page, as mkdocs makes them."""
    found, fenced = set(), False
    for line in text.split("\n"):
        fenced ^= line.startswith("```")
        if fenced or not line.startswith("#"):
            continue
        title = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", line.lstrip("#").strip()).replace("`", "")
        slug = re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", title).strip().lower())
        name, n = slug, 0
        while name in found:
            n += 1
            name = f"{slug}_{n}"
        found.add(name)
    return found


def github_anchor(anchor):
    return re.sub(r"-+", "-", anchor).strip("-")  # where a forge keeps two dashes, mkdocs keeps one


def rewrite_links(file, text):
    here = pathlib.PurePosixPath(file).parent
    page_folder = pathlib.PurePosixPath(places[file]).parent

    def replaced(match):
        bang, label, target = match.groups()
        if re.match(r"[a-z]+:", target):
            return match[0]
        path, _, anchor = target.partition("#")
        goal = os.path.normpath(here / path) if path else file
        if bang:
            if not (root / goal).is_file():
                faults.append(f"{file}: no picture {target}")
            return f"![{label}]({os.path.relpath('pictures/' + os.path.basename(goal), page_folder)})"
        if goal in places:
            if anchor and github_anchor(anchor) not in slugs((root / goal).read_text()):
                faults.append(f"{file}: {goal} has no heading '#{anchor}'")
            to = places[goal]
        elif (root / goal).is_file() and pathlib.Path(goal).suffix in SUFFIXES or (root / goal).is_dir():
            readme = goal + "/README.md"
            to = places[readme] if readme in places else source_page(goal)
            anchor = ""
        else:
            faults.append(f"{file}: there is no {goal}")
            return match[0]
        link = os.path.relpath(to, page_folder) if to != places[file] else ""
        return f"[{label}]({link}{'#' + github_anchor(anchor) if anchor else ''})"

    parts = re.split(r"(^```.*?^```[^\n]*$)", text, flags=re.S | re.M)
    parts[::2] = [re.sub(r"(!?)\[((?:`[^`]*`|[^\]\[])*)\]\(([^)\s]+)\)", replaced, p) for p in parts[::2]]
    return "".join(parts)


def write(page, text):
    path = pages / page
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


# ---------------------------------------------------------------- reference


def read_headers():
    """What doxygen read: header -> its public names, by line."""
    settings = {
        "INPUT": root / "include/cleave", "RECURSIVE": "YES", "FILE_PATTERNS": "*.hpp *.cuh", "QUIET": "YES",
        "INPUT_FILTER": "sed 's/^namespace cleave::inline [a-z0-9_]*/namespace cleave/'",
        "EXCLUDE_PATTERNS": "*/detail/* */generated/* */compiled/*", "EXCLUDE_SYMBOLS": "*detail *detail::*",
        "STRIP_FROM_PATH": root, "GENERATE_HTML": "NO", "GENERATE_LATEX": "NO", "GENERATE_XML": "YES",
        "XML_PROGRAMLISTING": "NO", "OUTPUT_DIRECTORY": out / "doxygen", "JAVADOC_AUTOBRIEF": "YES",
        "WARN_IF_UNDOCUMENTED": "NO", "WARN_NO_PARAMDOC": "NO", "AUTOLINK_SUPPORT": "NO", "WARN_LOGFILE": out / "doxygen.log",
    }
    (out / "doxygen").mkdir(parents=True, exist_ok=True)
    (out / "Doxyfile").write_text("".join(f"{k} = {v}\n" for k, v in settings.items()))
    subprocess.run(["doxygen", str(out / "Doxyfile")], check=True, cwd=root)
    for line in (out / "doxygen.log").read_text().splitlines():  # a comment may describe some parameters and not all
        if not re.search(r"not documented|^ +parameter '", line):
            faults.append(line)
    found = {}
    for file in sorted((out / "doxygen/xml").glob("*.xml")):
        if not re.match(r"(namespace|struct|class|concept)", file.name):
            continue
        compound = xml.parse(file).getroot().find("compounddef")
        if compound is None or "detail" in compound.findtext("compoundname").split("::"):
            continue
        if compound.get("kind") == "namespace":
            for member in compound.iter("memberdef"):
                add(found, member, qualified(member.findtext("qualifiedname") or member.findtext("name")))
        elif compound.findtext("compoundname").count("::") - ("<" in compound.findtext("compoundname")) <= 2:
            add(found, compound, qualified(compound.findtext("compoundname")))
    return found


def qualified(name):
    return name.removeprefix("cleave::")


def add(found, element, name):
    place = element.find("location")
    if place is not None and place.get("line") and element.get("prot", "public") == "public":
        file = place.get("file")
        file = file[file.index("include/") :].removeprefix("include/") if "include/" in file else file
        found.setdefault(file, []).append((int(place.get("line")), name, element))


def plain(element):
    return " ".join("".join(element.itertext()).split()) if element is not None else ""


def prose(element):
    """A comment as Markdown."""
    if element is None:
        return ""
    lines = []
    for para in element.findall("para"):
        text = [para.text or ""]
        after = []
        for child in para:
            if child.tag == "computeroutput":
                text.append(f"`{plain(child)}`")
            elif child.tag == "parameterlist":
                title = {"param": "Parameters", "exception": "Throws", "templateparam": "Parameters"}.get(child.get("kind"), "Values")
                after.append(f"\n*{title}:*\n")
                for item in child.findall("parameteritem"):
                    names = ", ".join(f"`{plain(n)}`" for n in item.iter("parametername"))
                    after.append(f"- {names} {prose(item.find('parameterdescription'))}")
            elif child.tag == "simplesect":
                after.append(f"\n*{child.get('kind').capitalize()}:* {prose(child)}")
            elif child.tag in ("itemizedlist", "orderedlist"):
                after.append("")
                after.extend(f"- {prose(item)}" for item in child.findall("listitem"))
            elif child.tag in ("programlisting", "verbatim"):
                after.append("\n```\n" + "".join(child.itertext()).strip("\n") + "\n```")
            else:
                text.append(plain(child))
            text.append(child.tail or "")
        lines.append("\n".join(["".join(text).strip(), *after]).strip())
    return "\n\n".join(line for line in lines if line)


def comment_of(element):
    return "\n\n".join(filter(None, (prose(element.find("briefdescription")), prose(element.find("detaileddescription")))))


def template_of(element):
    parameters = element.find("templateparamlist")
    if parameters is None:
        return ""
    names = []
    for p in parameters.findall("param"):
        name = f"{plain(p.find('type'))} {p.findtext('declname') or ''}".strip()
        names.append(name + (f" = {plain(p.find('defval'))}" if p.find("defval") is not None else ""))
    return f"template <{', '.join(names)}>\n"


def declaration(name, element):
    kind = element.get("kind")
    if kind in ("struct", "class"):
        bases = ", ".join(plain(b) for b in element.findall("basecompoundref"))
        return f"{template_of(element)}{kind} {name}{' : ' + bases if bases else ''};"
    if kind == "concept":
        return re.sub(r"\bcleave::(?=\w+ =)", "", "".join(element.find("initializer").itertext()).strip())
    if kind == "enum":
        return f"enum class {name} {{ {', '.join(v.findtext('name') for v in element.findall('enumvalue'))} }};"
    if kind == "typedef":
        return f"using {name} = {plain(element.find('type'))};"
    if kind == "function":
        return f"{template_of(element)}{plain(element.find('type'))} {name}{' '.join(element.findtext('argsstring').split())};".lstrip()
    return f"{plain(element.find('type'))} {name} {plain(element.find('initializer'))}".rstrip() + ";"


def members_table(element):
    rows = []
    for section in element.findall("sectiondef"):
        if not section.get("kind").startswith(("public", "user-defined")):
            continue
        for m in section.findall("memberdef"):
            if m.get("kind") not in ("variable", "function", "enum") or m.findtext("name").startswith("~"):
                continue
            shape = plain(m.find("type")) + " " + m.findtext("name") + " ".join((m.findtext("argsstring") or "").split())
            if m.get("kind") == "enum":
                shape = f"enum {m.findtext('name')} {{ {', '.join(v.findtext('name') for v in m.findall('enumvalue'))} }}"
            elif m.find("initializer") is not None:
                shape += " " + plain(m.find("initializer"))
            note = " ".join(comment_of(m).split())
            rows.append(f"| `{shape.strip().replace('|', chr(92) + '|')}` | {note.replace('|', chr(92) + '|')} |")
    for value in element.findall("enumvalue"):
        note = " ".join(comment_of(value).split()).replace("|", "\\|")
        rows.append(f"| `{value.findtext('name')}` | {note} |")
    return "| member | |\n|---|---|\n" + "\n".join(rows) + "\n" if rows else ""


def write_reference():
    found = read_headers()
    fronts, listed, names = sorted((root / "include/cleave").glob("*.hpp")), set(), 0
    for front in fronts:
        text, about, introduced = [], "", ""
        for line in front.read_text().split("\n"):
            if line.startswith("/// "):
                about = (about + " " + line[4:]).strip()
            elif m := re.match(r'#include "(cleave/.*)"', line):
                header = m[1]
                entries = [] if header in listed else sorted(found.get(header, []), key=lambda e: e[0])
                if entries:
                    listed.add(header)
                    text.append(f"\n## {header}\n\n`#include <{header}>` — {about}\n" if about else f"\n## {header}\n")
                    text.extend(entry_text(name, element) for _, name, element in entries)
                    names += len(entries)
                about = ""
            elif not line.strip() and about:
                introduced, about = introduced or about, ""
        if text:
            write(f"reference/{front.stem}.md", f"# {front.name}\n\n{introduced}\n\n`#include <cleave/{front.name}>`\n" + "".join(text))
    if names < 500:
        faults.append(f"the reference has only {names} names: doxygen read something else than the headers")
    rest = {h: e for h, e in found.items() if h not in listed and "/detail/" not in h}
    text = ["# Other headers\n\nPublic headers that no front includes.\n"]
    for header in sorted(rest):
        text.append(f"\n## {header}\n\n`#include <{header}>`\n")
        text.extend(entry_text(name, element) for _, name, element in sorted(rest[header], key=lambda e: e[0]))
    write("reference/other_headers.md", "".join(text))
    return [f"reference/{f.stem}.md" for f in fronts if (pages / f"reference/{f.stem}.md").exists()] + ["reference/other_headers.md"]


def entry_text(name, element):
    return f"\n### {html.escape(name)}\n\n```cpp\n{declaration(name, element)}\n```\n\n{comment_of(element)}\n\n{members_table(element)}\n"


# ---------------------------------------------------------------- the site


def title_of(file):
    first = (root / file).read_text().split("\n", 1)[0]
    return first.lstrip("# ").strip() or file


def main():
    if pages.exists():
        subprocess.run(["rm", "-rf", str(pages)], check=True)
    for file, place in places.items():
        write(place, rewrite_links(file, (root / file).read_text()))
    for picture in (root / "docs/pictures").iterdir():
        (pages / "pictures").mkdir(exist_ok=True)
        (pages / "pictures" / picture.name).write_bytes(picture.read_bytes())
    reference = write_reference()
    for file, page in list(shown.items()):
        path = root / file
        if path.is_file():
            fence = "````" if "```" in path.read_text() else "```"
            write(page, f"# {file}\n\n{fence}{SUFFIXES[path.suffix]}\n{path.read_text().rstrip()}\n{fence}\n")
        else:
            rows = []
            for child in sorted(path.iterdir()):
                relative = str(child.relative_to(root))
                goal = shown.get(relative) or places.get(relative)
                rows.append(f"- [{child.name}]({os.path.relpath(goal, pathlib.PurePosixPath(page).parent)})" if goal else f"- {child.name}")
            write(page, f"# {file}\n\n" + "\n".join(rows) + "\n")

    quoted = lambda text: '"' + text.replace('"', "'") + '"'
    nav = ""
    for section, files in SECTIONS:
        nav += f"  - {section}:\n"
        nav += "".join(f"      - {quoted(title_of(f))}: {places[f]}\n" for f in files if f in places)
        if section == "Reference":
            nav += "      - Headers:\n" + "".join(f"          - {pathlib.PurePosixPath(p).stem}: {p}\n" for p in reference)
    (out / "mkdocs.yml").write_text(
        f"""site_name: cleave
docs_dir: {pages}
site_dir: {out / "site"}
use_directory_urls: false
theme:
  name: material
  font: false
  palette:
    - media: "(prefers-color-scheme: light)"
      scheme: default
    - media: "(prefers-color-scheme: dark)"
      scheme: slate
  features: [navigation.sections, navigation.top, search.highlight]
plugins: [search]
markdown_extensions: [tables, fenced_code, toc, pymdownx.highlight, pymdownx.superfences]
nav:
{nav}"""
    )
    if faults:
        sys.exit("\n".join(["docs: these are wrong:"] + [f"  {f}" for f in faults]))
    subprocess.run(["mkdocs", "build", "--strict", "--quiet", "--clean", "-f", str(out / "mkdocs.yml")], check=True)
    print(out / "site/index.html")


main()
