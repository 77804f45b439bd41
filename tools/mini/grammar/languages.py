"""Sentences of other languages, as a person may type them into a demo."""

from .words import items, split

SENTENCES = {
    "German": """Hallo, wie geht es dir?|Wer bist du?|Was kannst du alles?|Kannst du mir bitte helfen?
Wie wird das Wetter morgen?|Erzähl mir einen Witz.
Ich möchte einen Termin für Montag eintragen.|Was ist die Hauptstadt von Frankreich?
Guten Morgen|Schreib mir ein Gedicht über den Frühling.|Wie spät ist es?
Vielen Dank für deine Hilfe!|Das habe ich nicht verstanden.|Warum ist der Himmel blau?
Sprichst du Deutsch?|Ich habe eine Frage zu meiner Rechnung.|Erkläre mir, wie ein Motor läuft.""",
    "French": """Bonjour, comment ça va ?|Qui es-tu ?|Qu'est-ce que tu sais faire ?
Peux-tu m'aider, s'il te plaît ?|Quel temps fera-t-il demain ?|Raconte-moi une blague.
Quelle est la capitale de l'Italie ?|Je ne comprends pas.|Écris un poème sur la mer.
Merci beaucoup !|Quelle heure est-il ?|Je voudrais réserver une table pour deux.|Bonsoir
Parles-tu français ?|Pourquoi le ciel est-il bleu ?|Explique-moi la photosynthèse.""",
    "Spanish": """Hola, ¿cómo estás?|¿Quién eres?|¿Qué puedes hacer?|¿Me puedes ayudar, por favor?
¿Qué tiempo hará mañana?|Cuéntame un chiste.|¿Cuál es la capital de Alemania?
Escribe un poema sobre el amor.|Muchas gracias por todo.|Buenos días|¿Qué hora es?
No entiendo nada.|Quiero comprar un coche nuevo.|¿Hablas español?
Necesito una receta de paella.""",
    "Italian": """Ciao, come stai?|Chi sei?|Che cosa sai fare?|Mi puoi aiutare, per favore?
Che tempo fa domani?|Raccontami una barzelletta.|Qual è la capitale della Spagna?|Scrivi una poesia sul mare.
Grazie mille!|Buongiorno a tutti|Non ho capito niente.|Parli italiano?
Vorrei prenotare un tavolo per stasera.""",
    "Portuguese": """Olá, tudo bem?|Quem é você?|O que você sabe fazer?|Você pode me ajudar?
Como vai ficar o tempo amanhã?|Conte uma piada.|Qual é a capital do Brasil?
Escreva um poema sobre a lua.|Muito obrigado!|Bom dia|Não entendi a resposta.""",
    "Dutch": """Hallo, hoe gaat het met je?|Wie ben jij?|Wat kun je allemaal?|Kun je me helpen?
Wat voor weer wordt het morgen?|Vertel eens een grap.|Wat is de hoofdstad van België?
Dank je wel!|Goedemorgen|Ik begrijp het niet.|Spreek je Nederlands?""",
    "Swedish": """Hej, hur mår du?|Vem är du?|Vad kan du göra?|Kan du hjälpa mig?|Hur blir vädret i morgon?
Tack så mycket!|Berätta en rolig historia.|Jag förstår inte.|God morgon
Vad heter Norges huvudstad?""",
    "Polish": """Cześć, jak się masz?|Kim jesteś?|Co potrafisz?|Czy możesz mi pomóc?|Jaka będzie jutro pogoda?
Dziękuję bardzo!|Opowiedz mi dowcip.|Nie rozumiem.|Dzień dobry|Jaka jest stolica Węgier?""",
    "Turkish": """Merhaba, nasılsın?|Sen kimsin?|Neler yapabilirsin?|Bana yardım eder misin?
Yarın hava nasıl olacak?|Bana bir fıkra anlat.|Teşekkür ederim!|Anlamadım.|Günaydın
Türkçe biliyor musun?""",
    "Russian": """Привет, как дела?|Кто ты?|Что ты умеешь?|Ты можешь мне помочь?|Какая завтра погода?
Расскажи анекдот.|Спасибо большое!|Я не понимаю.|Доброе утро|Какая столица Японии?
Напиши стихотворение о зиме.""",
    "Ukrainian": """Привіт, як справи?|Хто ти?|Що ти вмієш?|Допоможи мені, будь ласка.|Дякую!|Добрий день
Я не розумію.""",
    "Greek": """Γεια σου, τι κάνεις;|Ποιος είσαι;|Μπορείς να με βοηθήσεις;|Ευχαριστώ πολύ!|Καλημέρα
Δεν καταλαβαίνω.""",
    "Chinese": """你好|你好，你是谁？|你会做什么？|你能帮我吗？|明天天气怎么样？|给我讲个笑话。|谢谢你的帮助！|我听不懂。|早上好|法国的首都是哪里？|请写一首关于春天的诗。|现在几点了？
你会说中文吗？|帮我安排星期一的会议。|为什么天空是蓝色的？""",
    "Japanese": """こんにちは、お元気ですか？|あなたは誰ですか？|何ができますか？|手伝ってください。|明日の天気はどうですか？|冗談を言ってください。|ありがとうございます。|わかりません。
おはようございます|日本の首都はどこですか？""",
    "Korean": """안녕하세요, 잘 지내세요?|당신은 누구예요?|무엇을 할 수 있어요?|도와주세요.|내일 날씨가 어때요?|감사합니다!|재미있는 이야기를 해 주세요.|이해하지 못했어요.
좋은 아침이에요|한국어를 할 수 있어요?""",
    "Arabic": """مرحبا، كيف حالك؟|من أنت؟|ماذا تستطيع أن تفعل؟|هل يمكنك مساعدتي؟|كيف الطقس غدا؟|شكرا جزيلا!
صباح الخير|لا أفهم.""",
    "Hebrew": """שלום, מה שלומך?|מי אתה?|מה אתה יודע לעשות?|תודה רבה!|בוקר טוב|אני לא מבין.""",
    "Hindi": """नमस्ते, आप कैसे हैं?|आप कौन हैं?|आप क्या कर सकते हैं?|क्या आप मेरी मदद कर सकते हैं?|धन्यवाद!
मुझे समझ नहीं आया।""",
    "Vietnamese": """Xin chào, bạn khỏe không?|Bạn là ai?|Bạn có thể giúp tôi không?
Cảm ơn nhiều!|Tôi không hiểu.|Chào buổi sáng""",
    "Latin": """Quis es?|Salve, quid agis?|Gratias tibi ago.|Cogito ergo sum.|Lorem ipsum dolor sit amet.
Veni, vidi, vici.""",
}

# Letters of many scripts, for texts that belong to no language.
SCRIPTS = (
    (0x3B1, 0x3C9),
    (0x430, 0x44F),
    (0x5D0, 0x5EA),
    (0x627, 0x64A),
    (0x905, 0x939),
    (0xE01, 0xE2E),
    (0x10D0, 0x10F0),
    (0x3041, 0x3096),
    (0x30A1, 0x30FA),
    (0x4E00, 0x9FA5),
    (0xAC00, 0xD7A3),
    (0xC0, 0xFF),
)


def sentences(held_out):
    """(language, its sentences) of one side of the split, languages without any left out."""
    sides = ((language, split(items(text), held_out)) for language, text in SENTENCES.items())
    return [(language, lines) for language, lines in sides if lines]


def foreign_text(words):
    """One to three sentences of a language, perhaps cut short, without marks or in lower case."""
    _, lines = words.pick(sentences(words.held_out))
    text = " ".join(words.pick(lines) for _ in range(words.pick([1, 1, 1, 2, 3])))
    if words.chance(0.2):
        pieces = text.split(" ")
        text = " ".join(pieces[: words.random.randint(1, len(pieces))])
    if words.chance(0.2):
        text = text.lower()
    if words.chance(0.2):
        text = text.rstrip("?.!。？؟;")
    return text or words.pick(lines)


def random_script(words):
    """Letters of one script without any sense."""
    first, last = words.pick(SCRIPTS)
    pieces = [
        "".join(chr(words.random.randint(first, last)) for _ in range(words.random.randint(1, 8)))
        for _ in range(words.random.randint(1, 6))
    ]
    return " ".join(pieces)
