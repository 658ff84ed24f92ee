"""Detection of languages from a sentence or two."""

from __future__ import annotations

import pytest

from resources_servers.instruction_following.instructions.languages import LANGUAGES, language_of

SAMPLES = {
    "ar": "ذهبت إلى السوق اليوم مع صديقي، ولم نجد الخبز الذي نريده في أي مكان.",
    "bg": "Днес отидох на пазара с приятел, но не намерихме хляба, който искахме да купим.",
    "bn": "আজ আমি বন্ধুর সাথে বাজারে গিয়েছিলাম।",
    "de": "Heute bin ich mit einem Freund auf den Markt gegangen, aber wir haben das Brot nicht gefunden.",
    "el": "Σήμερα πήγα στην αγορά με έναν φίλο.",
    "en": "Today I went to the market with a friend, but we did not find the bread that we wanted.",
    "es": "Hoy fui al mercado con un amigo, pero no encontramos el pan que queríamos comprar para la cena.",
    "fa": "امروز با دوستم به بازار رفتم و نانی را که می‌خواستیم در آن پیدا نکردیم.",
    "fi": "Kävin tänään torilla ystävän kanssa, mutta emme löytäneet leipää, joka oli hyvin halpaa.",
    "fr": "Aujourd'hui je suis allé au marché avec un ami, mais nous n'avons pas trouvé le pain que nous voulions.",
    "gu": "આજે હું મિત્ર સાથે બજારમાં ગયો.",
    "he": "היום הלכתי לשוק עם חבר.",
    "hi": "आज मैं अपने दोस्त के साथ बाज़ार गया, लेकिन हमें वह रोटी नहीं मिली जो हम चाहते थे।",
    "id": "Hari ini saya pergi ke pasar dengan teman, tetapi kami tidak menemukan roti yang kami cari.",
    "it": "Oggi sono andato al mercato con un amico, ma non abbiamo trovato il pane che volevamo per la cena.",
    "ja": "今日は友達と市場に行きましたが、欲しかったパンは見つかりませんでした。",
    "kn": "ಇಂದು ನಾನು ಸ್ನೇಹಿತನೊಂದಿಗೆ ಮಾರುಕಟ್ಟೆಗೆ ಹೋದೆ.",
    "ko": "오늘 친구와 시장에 갔지만 빵을 찾지 못했습니다.",
    "ml": "ഇന്ന് ഞാൻ സുഹൃത്തിനൊപ്പം ചന്തയിൽ പോയി.",
    "mr": "आज मी मित्रासोबत बाजारात गेलो आणि आम्हाला हवी असलेली भाकरी तिथे मिळाली नाही, पण ते ठीक आहे.",
    "ne": "आज म साथीसँग बजार गएको थिएँ, तर हामीले खोजेको रोटी पाएनौं र यो राम्रो भएन, तर हामी खुसी छौं र पनि गर्छौं।",
    "nl": "Vandaag ben ik met een vriend naar de markt gegaan, maar we hebben het brood niet gevonden.",
    "pa": "ਅੱਜ ਮੈਂ ਦੋਸਤ ਨਾਲ ਬਾਜ਼ਾਰ ਗਿਆ।",
    "pl": "Dzisiaj poszedłem z przyjacielem na targ, ale nie było chleba, który chcieliśmy kupić.",
    "pt": "Hoje fui ao mercado com um amigo, mas não encontramos o pão que queríamos comprar para o jantar.",
    "ru": "Сегодня я ходил на рынок с другом, но мы не нашли тот хлеб, который хотели купить.",
    "sv": "Idag gick jag till marknaden med en vän, men vi hittade inte det bröd som vi ville ha.",
    "sw": "Leo nilienda sokoni na rafiki yangu lakini hatukupata mkate ambao tulitaka kwa ajili ya chakula cha jioni.",
    "ta": "இன்று நான் நண்பருடன் சந்தைக்குச் சென்றேன்.",
    "te": "ఈ రోజు నేను స్నేహితుడితో కలిసి మార్కెట్‌కి వెళ్ళాను.",
    "th": "วันนี้ฉันไปตลาดกับเพื่อน",
    "tr": "Bugün bir arkadaş ile pazara gittim ama istediğimiz ekmek orada yoktu ve çok üzüldük.",
    "uk": "Сьогодні я ходив на ринок із другом, але ми не знайшли хліб, який хотіли купити.",
    "ur": "آج میں اپنے دوست کے ساتھ بازار گیا لیکن ہمیں وہ روٹی نہیں ملی جو ہم چاہتے تھے۔",
    "vi": "Hôm nay tôi đi chợ với một người bạn nhưng chúng tôi không tìm thấy bánh mì.",
    "zh": "今天我和朋友去了市场，但是没有找到我们想要的面包。",
}


def test_every_language_has_a_sample() -> None:
    assert SAMPLES.keys() == set(LANGUAGES)


@pytest.mark.parametrize(("language", "text"), SAMPLES.items(), ids=SAMPLES)
def test_language_of(language: str, text: str) -> None:
    assert language_of(text) == language
    assert language_of(f"NASA 2024: {text} (Google)") == language
    assert language_of(text.upper()) == language


@pytest.mark.parametrize("text", ["", "42!", "Xyzzy", "😀"])
def test_a_text_without_evidence_has_no_language(text: str) -> None:
    assert language_of(text) is None
