"""Record which patterns RE2/J accepts and which texts they match (RE2/J of Kafka 4.3.1), into tests/data/re2j-patterns.json.

    scripts/record patterns [--seed N] [--random N]

Needs `java` (a JDK, 17 or newer) and `mvn`. The table has the patterns of `PATTERNS` below, and as many random patterns.
"""

from __future__ import annotations

import json
import random
import subprocess
import tempfile
from pathlib import Path

from ecosystem.kafka.releases import fetch_jars
from ecosystem.recording.common import DATA, parser_of

TABLE = DATA / "re2j-patterns.json"
TEXTS = [
    "", "a", "b", "ab", "aa", "aB", "A", "Z", "x", "z", "1", "12", "t-1", "t_1", "t.1", "orders", "orders.eu", "Orders",
    "_", "-", ".", "k", "K", "s", "S", "abc", "aaa", "{", "tx", "k1s", "a\n", "é", "É", "ſ", "β", "a b",
]  # fmt: skip
PATTERNS = r"""
(a+)+ order.* orders|Orders .*[.-].* \pL \p{L}+ \p{Lu} \pN \PN \p{Greek} \p{^Greek} \P{^L} \p{Any} \p{Latin}+ \p{Foo} \pX
\p{IsLatin} \p{LC} \p{Cn} \p \p{ \p{Lu [\pL] [^\PL] [\D] [^\D] (?i)k (?i)[k] (?i)ſ (?i)É (?i)ORDERS (?i:a)B (?i)(?-i)a
a{2} a{1,2} a{0} a{0}b a{1000} a{1001} a{1,1001} a{2147483648} a{99999999999} a{1,99999999999} a{,2} a{2 a{2,1} { {1} x{2}{3}
x{2}?{3} a** a*+ a++ a?+ a*? a?? a??? * |* (*) (|a)* ()* ^* $* \b* (?=a) (?!a) (?<=a) (?<!a) (?>a) (?#c)a (?<n>a)
(?P<n>a) (?P=n) (?P<n>a)(?P<n>b) (?P<n>a)[(?P<n>b)] \(?P<n>a (?P<n>a)\(?P<n>b (?<n1 (?P<>a) (?P<a-b>a) \1 (a)\1 \C [\C]
\Q\C\E \Z \z \A \Aa\z ^a$ (?m)^a$ (?s). . .. (?U)a+ (?x)a (?i-s:a) (?-)a (?--i)a (?i (? ( ) a) (a \\ \_ \- \. \d \D \s \S
\w \W \b.\b \B.\B \Qa.b\E \Q \Qab \Qt.1 \Qa\Ebc \Q(((\E|a [[:alpha:]]+ [[:^alpha:]] [[:foo:]] [[:word:]]+ [[:alpha:] [] []a]
\é \p{Adlam} \p{Unknown} [^]a] [a- [b-a] [a-\d] [\d-a] [-a] [a-] [a-b-c] [a&&b] [[=a=]] [[.a.]] \x41 \x{41} \x{110000} \x{10FFFF}
\x4 \07 \08 \777 \400 \8 \v \a\f\n\r\t \e \h \G \R \X \K \N \u0041 \cA é É \x{e9} [é-ü] a\ (((((a))))) (?i)\x{212a} [[:ALPHA:]] (?P<n (?P>a)
""".split()
PIECES = r"""
a b A k s 1 . - _ t x ab * + ? *? {2} {0,2} {1,} {2,1} | ( ) (?: (?i) (?i: (?-i) (?s) (?P<n> (?<m> [ ] [ab] [^a]
[a-z] [A-Z0-9] [[:alpha:]] [[:^digit:]] \d \w \W \s \S \D \pL \p{Lu} \PL \b \B ^ $ \A \z \. \Q \E \x41 \n \1 \C é
""".split()
PROBE = """
import com.google.re2j.*; import java.io.*; import java.util.*; import static java.nio.charset.StandardCharsets.UTF_8;
public class Probe {
  static String text(String hex) { return new String(HexFormat.of().parseHex(hex), UTF_8); }
  public static void main(String[] none) throws Exception {
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in, UTF_8));
    List<String> texts = new ArrayList<>();
    for (String line; !(line = in.readLine()).equals("=="); ) texts.add(text(line));
    for (String line; (line = in.readLine()) != null; ) {
      try {
        Pattern pattern = Pattern.compile(text(line));
        StringBuilder said = new StringBuilder();
        for (String each : texts) said.append(pattern.matcher(each).matches() ? '1' : '0');
        System.out.println(said);
      } catch (PatternSyntaxException fault) { System.out.println(fault.getDescription()); }
    }
  }
}
"""


def random_pattern(dice: random.Random) -> str:
    """Joins random pieces of patterns; about half of the results are not valid patterns."""
    return "".join(dice.choice(PIECES) for _ in range(dice.randint(2, 7)))


def judged(patterns: list[str]) -> list[str]:
    """For each pattern, returns a digit for each text of TEXTS (1 if the text matches), or RE2/J's reason to refuse the
    pattern.
    """
    (jar,) = fetch_jars().glob("re2j-*.jar")
    lines = [*(each.encode().hex() for each in TEXTS), "==", *(each.encode().hex() for each in patterns)]
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "Probe.java")
        source.write_text(PROBE)
        command = ["java", "-cp", str(jar), str(source)]
        done = subprocess.run(command, input="\n".join(lines) + "\n", capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def main(arguments: list[str]) -> int:
    """Record the table."""
    parser = parser_of("patterns", __doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--random", type=int, default=600)
    asked = parser.parse_args(arguments)
    dice = random.Random(asked.seed)
    patterns = list(dict.fromkeys([*PATTERNS, *(random_pattern(dice) for _ in range(asked.random))]))
    table = {"texts": TEXTS, "patterns": dict(zip(patterns, judged(patterns), strict=True))}
    TABLE.write_text(json.dumps(table, ensure_ascii=False, indent=0) + "\n")
    print(f"{TABLE.name}: {len(patterns)} patterns")
    return 0
