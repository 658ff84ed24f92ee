"""Detection of a text's language by script, letters and common words, and instructions about the language.

Most scripts determine the language. Among languages that share a script (Latin, Cyrillic, Arabic, Devanagari), the one
with the most function words and distinctive letters in the text is chosen. That needs a sentence or two; that of a
single word or a number is unknown. The result is deterministic, which statistical detectors do not guarantee.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Literal, get_args

from resources_servers.instruction_following.instructions.parameters import Position
from resources_servers.instruction_following.instructions.registry import instruction
from resources_servers.instruction_following.instructions.text_units import words

Language = Literal[
    "ar", "bg", "bn", "de", "en", "es", "fa", "fi", "fr", "gu", "hi", "it", "ja", "kn", "ko", "ml", "mr", "ne", "nl",
    "pa", "pl", "pt", "ru", "sw", "sv", "ta", "te", "th", "tr", "uk", "ur", "vi", "zh", "he", "el", "id",
]  # fmt: skip
"""ISO 639-1 codes of IFEval and a few more."""

LANGUAGES: tuple[str, ...] = get_args(Language)

_SCRIPTS = {
    "latin": re.compile(r"[a-zA-Z\u00c0-\u024f\u1e00-\u1eff]"),
    "cyrillic": re.compile(r"[\u0400-\u04ff]"),
    "arabic": re.compile(r"[\u0600-\u06ff]"),
    "devanagari": re.compile(r"[\u0900-\u097f]"),
    "kana": re.compile(r"[\u3040-\u30ff]"),
    "han": re.compile(r"[\u4e00-\u9fff]"),
    "ko": re.compile(r"[\uac00-\ud7a3\u1100-\u11ff]"),
    "he": re.compile(r"[\u0590-\u05ff]"),
    "el": re.compile(r"[\u0370-\u03ff]"),
    "th": re.compile(r"[\u0e00-\u0e7f]"),
    "bn": re.compile(r"[\u0980-\u09ff]"),
    "pa": re.compile(r"[\u0a00-\u0a7f]"),
    "gu": re.compile(r"[\u0a80-\u0aff]"),
    "ta": re.compile(r"[\u0b80-\u0bff]"),
    "te": re.compile(r"[\u0c00-\u0c7f]"),
    "kn": re.compile(r"[\u0c80-\u0cff]"),
    "ml": re.compile(r"[\u0d00-\u0d7f]"),
}
"""Scripts by name; a script of a single language is named by the language's code."""

_FUNCTION_WORDS: Mapping[str, Mapping[str, str]] = {
    "latin": {
        "en": "the of and to in is that it was for on are with as be at this have from or by not but what all were "
        "when we there can an your which their if will how them then she he his her they you i has would about",
        "es": "el la los las de que y en un una es se no por con su para como más pero sus le ya o este sí porque "
        "esta entre cuando muy sin sobre también me hasta hay donde quien desde todo nos durante todos uno les ni",
        "pt": "o a os as de que e do da em um uma é não se no na por mais dos das como mas foi ao ele tem à seu sua "
        "ou ser quando muito há nos já está eu também só pelo pela até isso ela entre era depois sem mesmo aos são",
        "fr": "le la les de des du et un une est que dans qui par pour pas sur plus ne se ce il au avec sont elle "
        "nous vous je mais ou où leur cette ces aux être fait comme tout son sa ses même aussi très donc à était",
        "de": "der die das und ist in den von zu mit sich des auf für nicht ein eine als auch es an werden aus er hat "
        "dass sie nach wird bei einer um am sind noch wie einem über einen so zum war haben nur oder aber vor ich",
        "it": "il lo la gli le di che e è un una in per non sono con si da come ma anche più del della dei delle al "
        "nel nella ha questo questa se io lei lui ci perché molto alla dal essere stato quando dove fra suo sua",
        "nl": "de het een van en in is dat op te zijn met voor niet aan er om ook als maar bij door dan nog naar uit "
        "heeft ze hij over kan worden deze of wat je ik we wordt meer geen tot was hebben zo veel onder",
        "sv": "och att det som en på är av för med till den har de inte om ett han men var jag sig från vi så kan nu "
        "man när år under också efter eller sin hade mot vid alla skulle kommer ut får finns vara upp",
        "pl": "w i z na się nie do to jest że jak o po co ale od za przez dla tak być czy ten jego już tylko są przy "
        "może oraz które który ich jej był była było tego ma ze go by mnie bardzo gdy jako pod tym",
        "fi": "ja on ei se että oli hän en mutta ovat joka myös tai kun niin sen olla ole kuin jos ne voi sitä mukaan "
        "vain sekä hänen jo nyt siitä mitä minä sinä me he tämä nämä tässä hyvin paljon kanssa jotka",
        "tr": "ve bir bu da de için ile çok daha olarak en gibi kadar ne var olan ama o ben sen biz onlar değil mi "
        "sonra her olduğu ki veya ya ise şey nasıl göre yok iki tüm bunu zaman",
        "vi": "và của là có không được cho một trong các những người với đã này để khi từ đến tôi bạn chúng ta sẽ về "
        "như ra vào cũng nhiều rất thì mà ở hay nhưng còn lại nếu nên do bị việc làm",
        "sw": "na ya wa kwa ni katika la za kuwa si hii huo hiyo hivyo lakini pia kama yake wake au kila sana watu "
        "wakati mimi wewe sisi wao yeye ambayo ambao kutoka mtu siku nchi baada kabla cha vya hata tu bila",
        "id": "yang dan di ini itu dengan untuk dari dalam tidak pada adalah akan ke juga saya kami kita mereka dia "
        "oleh atau karena ada bisa sudah lebih seperti telah dapat anda sebagai tersebut secara bagi saat",
    },
    "cyrillic": {
        "ru": "и в не на что он с как это по но они из у за от о к для же бы мы вы так его её только было все когда "
        "если или ещё уже быть также где есть то чтобы который которые очень при я был была этот эта",
        "uk": "і в не на що він з як це по але вони із у за від до та для ж би ми ви так його її тільки було всі коли "
        "якщо або ще вже бути також де є то щоб який які дуже при я був була цей ця й",
        "bg": "и в не на че той с как това по но те от за до се да ще са е има или ако когато много съм си беше бяха "
        "който която които този тази тези само още вече също към при ни аз ти ние вие",
    },
    "arabic": {
        "ar": "في من على إلى أن هذا هذه التي الذي كان كانت ما لا مع عن هو هي أو بعد كل قد لم إن ذلك بين ولا حيث كما "
        "أيضا نحن أنت كنت يمكن عند غير قبل",
        "fa": "و در به از که این را با است برای آن یک خود تا کرد بر هم نیز می شد ها او ما شما من آنها اما یا باید اگر "
        "بود های هر چه نیست دارد شود کند همه",
        "ur": "کے کی میں ہے اور سے کا کو پر نے یہ ہیں اس کہ کر ہو بھی تھا ایک وہ جو نہیں گیا تو ہم آپ لیے ان تھے ہوتا "
        "کیا ساتھ بہت تھی جا رہا رہے",
    },
    "devanagari": {
        "hi": "के का की में है और से को पर ने यह हैं कि एक भी नहीं था तो कर हो इस वह जो ही लिए या साथ बहुत थे थी गया "
        "हम आप मैं अपने सकते होता रहा कुछ",
        "mr": "आणि आहे हा ही हे या ते तो ती की मध्ये आहेत नाही एक होते होता असे पण तर साठी करून त्या मी आम्ही तुम्ही खूप "
        "झाले काही केली त्यांनी आपण म्हणून असतात",
        "ne": "र छ हो को मा का ले यो पनि छन् लागि भने गर्न एक तर हुन्छ म हामी तपाईं थियो छैन गरेको धेरै यस त्यो भएको "
        "वा सबै गर्छ सँग हुन् बाट",
    },
}

_OWN_LETTERS = {
    "es": "ñ¿¡", "pt": "ãõ", "de": "ß", "pl": "ąęłśżźń", "sv": "å", "tr": "ğış", "vi": "ăđơưạảấầậắằặẹẻẽếềệ",
    "fr": "œçêèù", "ru": "ыэё", "uk": "іїєґ", "bg": "ъ", "fa": "پچژگ", "ur": "ٹڈڑںےہ", "ar": "ةى", "mr": "ळ",
}  # fmt: skip
"""Letters of a language that other languages of the same script lack or rarely use."""

_WEIGHT_OF_LETTER = 0.5
_SHARE_OF_KANA = 0.05
"""Minimum share of kana in Japanese text; Chinese has none."""

_WORDS_OF = {
    script: {language: frozenset(text.split()) for language, text in languages.items()}
    for script, languages in _FUNCTION_WORDS.items()
}


def language_of(text: str) -> str | None:
    """Return the code of the predominant language of `text`; None when it cannot be determined."""
    counts = {script: len(pattern.findall(text)) for script, pattern in _SCRIPTS.items()}
    east_asian = counts.pop("kana"), counts.pop("han")
    counts["ja" if east_asian[0] > _SHARE_OF_KANA * sum(east_asian) else "zh"] = sum(east_asian)
    script = max(counts, key=counts.__getitem__)
    if not counts[script]:
        return None
    return _language_in(script, text) if script in _WORDS_OF else script


def _language_in(script: str, text: str) -> str | None:
    """Return the language of `script` with the most function words and distinctive letters in `text`."""
    lower = text.lower()
    said = Counter(words(lower))
    letters = Counter(lower)
    scores = {
        language: sum(said[word] for word in own)
        + _WEIGHT_OF_LETTER * sum(letters[letter] for letter in _OWN_LETTERS.get(language, ""))
        for language, own in _WORDS_OF[script].items()
    }
    (best, score), (_, second) = sorted(scores.items(), key=lambda entry: -entry[1])[:2]
    return best if score > second else None


@instruction("language:response_language", wording="Answer in the language {language} only.")
def is_in_language(text: str, *, language: Language) -> bool:
    return language_of(text) == language


_JAPANESE = re.compile(r"[\u3040-\u30ff\u4e00-\u9fff]")


@instruction("count:words_japanese", wording="Let every {N}th word be Japanese.")
def has_japanese_words(text: str, *, N: Position) -> bool:
    every_nth = words(text)[N - 1 :: N]
    return bool(every_nth) and all(word.isdigit() or _JAPANESE.search(word) for word in every_nth)
