"""What a gateway or a model says instead of a summary, with status 200, is no summary; a short summary is one.

Each case states what it replaces: the bad ones a talk that has words of errors in it, the genuine ones the talk that
they sum up.
"""

from __future__ import annotations

import time

import pytest

from compaction_app.summarizers.error_text import is_error_text, tells_nothing

pytestmark = pytest.mark.pure

#: What the bad replies would have replaced. It has names, numbers, and words of errors.
WEDDING = """
Can you help me plan my sister Mirela's wedding in Sibiu? The hall of Casa Luxemburg is free on 21 September for 80.
Of course. Casa Luxemburg seats 90. I can't see the price: the server of their site is unavailable, please try again.
Yes, and the request for music goes to Horia, 450 EUR. There was an error in order X-1182, and no answer so far.
"""
#: A long one, in which any small number and any ordinary word occurs.
LONG = WEDDING + "\n".join(
    f"On day {n} the model of the {n}th table came, and the service had a time limit and a problem." for n in range(300)
)

ERRORS = [
    "Error: Rate limit reached for gpt-4o in organization org-x on tokens per min (TPM): Limit 30000, Used 29000.",
    "Error code: 429 - {'error': {'message': 'Rate limit reached', 'type': 'tokens'}}",
    "[ERROR] upstream connect error or disconnect/reset before headers. reset reason: connection failure",
    "openai.RateLimitError: You exceeded your current quota, please check your plan and billing details.",
    "litellm.exceptions.APIConnectionError: connection refused",
    "API Error: 500 the backend is not reachable",
    "HTTP 502: Bad Gateway",
    "503 Service Unavailable",
    "Service Unavailable",
    "Service temporarily unavailable. Please try again in a few minutes.",
    "Too Many Requests\n\nretry after 20 seconds",
    "⚠️ Internal Server Error",
    "Traceback (most recent call last):\n  File \"/srv/app.py\", line 3, in <module>\n    main()\nKeyError: 'x'",
    "upstream request timeout",
    "no healthy upstream",
    "Rate limit exceeded. Try again in 20 seconds.",
    "You exceeded your current quota, please check your plan and billing details.",
    "The request timed out. Please try again.",
    "An error occurred while processing your request. Please contact us with the request id 0123.",
    "An unexpected error has occurred.",
    "Oops, something went wrong! Please try again later.",
    "The model is currently overloaded with other requests.",
    "The server had an error while processing your request. Sorry about that!",
    "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.",
    "Incorrect API key provided. You can find your API key in the settings.",
    "I'm sorry, I can't help with that.",
    "I’m sorry, but I can’t assist with that request. It contains content that I am not able to discuss.",
    "I apologize, but I am unable to summarize this conversation because of its content.",
    "Sorry, an error has occurred; please try again.",
    "I cannot provide a summary of this conversation.",
    "As an AI language model, I do not have access to earlier conversations.",
    "Unfortunately, I'm not able to comply with this request.",
    "Es tut mir leid, aber dabei kann ich nicht helfen.",
    "Je suis désolé, mais je ne peux pas répondre à cette demande.",
    "Lo siento, pero no puedo ayudar con eso en este momento.",
    "很抱歉，我无法提供这个对话的摘要，因为其中包含敏感内容。请换一个话题继续。",
    "申し訳ございませんが、そのリクエストにはお答えできません。",
    '{"error": "model not found"}',
    '{"error": {"message": "overloaded", "type": "server_error", "code": 503}}',
    '[{"error": {"code": 429, "message": "Resource has been exhausted", "status": "RESOURCE_EXHAUSTED"}}]',
    '{"type": "error", "message": "overloaded_error: the service is over capacity"}',
    '{"detail": "Not authenticated: no credentials were given"}',
    '{"status": 503, "message": "no server is available to handle this request"}',
    '```json\n{"error": "context deadline exceeded while reading body"}\n```',
    "<!DOCTYPE html>\n<html><head><title>502 Bad Gateway</title></head><body>nginx</body></html>",
    "<html>\r\n<head><title>504 Gateway Time-out</title></head></html>",
    '<?xml version="1.0"?><Error><Code>AccessDenied</Code></Error>',
]

SUMMARIES = [
    "## Deployment\nError: ENOENT came up three times; the user fixed the path. Nothing is open.",
    "The user saw 'Error: Rate limit reached' from their gateway and asked for a retry with back-off of 20 seconds.",
    (
        "The server had an error 500 on /login after the release of 3 May. The user rolled back, asked you to read the "
        "log and found the missing migration 0042; they decided to block releases on Fridays from now on, and Ann told "
        "the customers. What is left is a test for the login page, which you proposed and they accepted for next week."
    ),
    "Error handling was the topic: the user wants every exception logged with its request id, and no bare except.",
    "Errors of the import are collected in errors.csv; 14 of 2,000 rows failed.",
    "Service unavailable pages are now served by the CDN, as the user decided on 3 May.",
    "Forbidden words were agreed: the assistant must never say 'cheap'.",
    "429 responses are retried by the client with back-off; the user wants at most five attempts.",
    "404 pages get a search box, the user said.",
    "The user is sorry that the report is late and asked you to write an apology to the customer.",
    "Sorry! was the name of the game that the user and you designed; it has four players.",
    "Unfortunately for the plan, the venue is booked; the user moved the party to 14 June.",
    "The user wrote: I'm sorry, I can't come on Friday. You offered Monday at 10:00.",
    "I Robot, a novel, was discussed; the user prefers the film of 2004.",
    '{"topic": "billing", "decisions": ["invoices go out on the 3rd"], "open": []}',
    '{"messages": 14, "summary": "The user asked for the errors of the import and got a list."}',
    "Internal notes: the user Ann prefers metric units, and the trip begins on 3 May.",
    "Timeouts: connect 5 s, read 30 s, agreed with the user.",
    "用户说抱歉迟到，并决定把会议改到五月三日下午两点，地点不变，由安负责通知所有人。",
    # Long texts are summaries, whatever they begin with.
    "I cannot stress enough how much was decided. " + "The user chose blue for the door of the house. " * 40,
]

#: Written without a look at the patterns, to try them out.
MORE_ERRORS = [
    "The AI model encountered an issue. Please retry your request.",
    "Failed to generate a response. Please try again.",
    "Oops! Looks like we hit a snag. Try again in a moment.",
    '{"code":"rate_limit_exceeded","msg":"Too fast"}',
    '{"success": false, "reason": "upstream timeout"}',
    '{"Message":"User is not authorized to access this resource"}',
    (
        '{"fault":{"faultstring":"Spike arrest '
        'violation","detail":{"errorcode":"policies.ratelimit.SpikeArrestViolation"}}}'
    ),
    "Request failed with status code 502",
    "AxiosError: Request failed with status code 500",
    "<title>Attention Required! | Cloudflare</title>",
    "Your account has been suspended due to unpaid invoices.",
    "Quota exceeded for quota metric 'Generate Content API requests per minute'.",
    "429 Too Many Requests: please slow down",
    "Error 1015: You are being rate limited",
    "⛔ 504 Gateway Timeout",
    "Model is loading, estimated time 20s",
    "CUDA out of memory. Tried to allocate 2.00 GiB",
    "[Error: connect ECONNREFUSED 10.0.0.1:8000]",
    "Internal error. Request ID: 7fa3b2c1",
    "We're experiencing high demand right now. Please try again later.",
    "The server is temporarily unable to service your request due to maintenance downtime or capacity problems.",
    "No response received from the model.",
    "I can’t help with summarizing this content.",
    "I won't be able to summarize that.",
    "I'm not comfortable summarizing this conversation.",
    "I'm sorry, but I don't have access to the conversation you're referring to.",
    "It seems there is no conversation to summarize. Please provide the messages.",
    "Sorry, but as an AI developed by OpenAI, I must decline.",
    "I must respectfully decline to summarise this content, as it violates policy.",
    "Please provide the conversation you would like me to summarize.",
    "Leider kann ich diese Anfrage nicht bearbeiten.",
    "Ich kann dabei leider nicht helfen.",
    "Fehler: Zeitüberschreitung der Anfrage",
    "Erreur 503 : Service indisponible",
    "Désolé, je ne peux pas vous aider avec cette demande.",
    "No puedo ayudarte con eso.",
    "Error interno del servidor. Inténtelo de nuevo más tarde.",
    "Não consigo ajudar com esse pedido.",
    "抱歉，我不能协助处理这个请求。",
    "请求过于频繁，请稍后再试。",
    "サーバーエラーが発生しました。しばらくしてからもう一度お試しください。",
    "عذرًا، لا أستطيع المساعدة في ذلك.",
    "Przepraszam, nie mogę w tym pomóc.",
    "Het spijt me, maar daar kan ik niet mee helpen.",
    "Üzgünüm, bu konuda yardımcı olamıyorum.",
    "क्षमा करें, मैं इसमें सहायता नहीं कर सकता।",
    "Content filtered: the response was blocked by the safety system.",
    "The response was filtered due to the prompt triggering Azure OpenAI's content management policy.",
    '{"object":"error","message":"The model `x` does not exist.","type":"NotFoundError","param":null,"code":404}',
    'data: {"error":{"message":"Overloaded"}}',
    "Erro: limite de requisições excedido",
    "Gateway error: the upstream provider did not answer within 30 seconds.",
    "There was an error generating a response.",
    "There was a problem with your request. Reference: 9c1f.",
    "Provider returned error",
    "Model overloaded, please retry.",
    "Server is busy.",
    "Timeout waiting for the model.",
    "Connection reset by peer",
    "Connection refused",
    "Read timed out.",
    "Empty response from provider",
    "Invalid request: messages must not be empty",
    "Invalid response from upstream",
    "Access denied: insufficient permissions for model gpt-5.",
    "Authentication failed. Check your credentials.",
    "Unauthorized",
    '{"detail":"Not Found"}',
    '{"errors":[{"code":7000,"message":"No route for that URI"}]}',
    '{"status":"error","message":"workspace budget exceeded"}',
    '{"error_type":"overloaded","error":{"type":"overloaded_error","message":"Overloaded"}}',
    '{"type":"error","error":{"type":"api_error","message":"Internal server error"}}',
    "Budget has been exceeded! Current cost: 10.2, Max budget: 10.0",
    "ExceededBudget: User=abc over budget. Spend=10.2, Budget=10.0",
    "litellm.BadRequestError: GetLLMProvider Exception - list index out of range",
    "panic: runtime error: index out of range [3] with length 3",
    "Segmentation fault (core dumped)",
    "This content may violate our usage policies.",
    "This request was flagged by our moderation system.",
    "I cannot fulfill this request.",
    "I can't do that.",
    "I'm unable to process this request at the moment.",
    "I am not able to summarize conversations that contain personal data.",
    "Sorry, something went wrong on our end.",
    "Sorry! We couldn't process that.",
    "Apologies, but I cannot comply.",
    "I do not feel comfortable continuing this conversation.",
    "I must decline.",
    "I'm just an AI, so I can't summarise this.",
    "My guidelines don't allow me to summarise this conversation.",
    "That's not something I can help with.",
    "Je regrette, mais il m'est impossible de répondre à cette demande.",
    "Es ist ein Fehler aufgetreten. Bitte versuchen Sie es später erneut.",
    "Se ha producido un error. Inténtelo de nuevo.",
    "Une erreur s'est produite.",
    "Si è verificato un errore.",
    "Ocorreu um erro. Tente novamente.",
    "Произошла ошибка. Попробуйте позже.",
    "Nie mogę pomóc w tej sprawie.",
    "发生错误，请重试。",
    "当前分组上游负载已饱和，请稍后再试",
    "エラーが発生しました。",
    "요청을 처리할 수 없습니다. 잠시 후 다시 시도해 주세요.",
    "Đã xảy ra lỗi. Vui lòng thử lại.",
    "حدث خطأ. يرجى المحاولة مرة أخرى لاحقًا.",
    "Bir hata oluştu. Lütfen tekrar deneyin.",
    "I’m really sorry, but the conversation contains material I’m not permitted to process.",
    "We could not complete your request because the context was rejected by the provider.",
    "Sorry, our systems are under heavy load. Please wait a minute and retry.",
    "The inference endpoint is scaled to zero; it is waking up, try again in 60 seconds.",
    "Your request was rejected as a result of our safety system.",
    '{"ok":false,"error_code":502,"description":"Bad Gateway"}',
    '{"code":"InternalServerError","message":"An unexpected condition occurred."}',
    '{"errorType":"Runtime.ExitError","errorMessage":"RequestId: 1 Error: Runtime exited"}',
    '{"__type":"ThrottlingException","message":"Too many requests"}',
    "ThrottlingException: Too many tokens, please wait before trying again.",
    "botocore.errorfactory.ThrottlingException: An error occurred (ThrottlingException) when calling InvokeModel",
    "requests.exceptions.ReadTimeout: HTTPSConnectionPool(host='x', port=443): Read timed out. (read timeout=30)",
    "Payment required: top up your balance to continue using this model.",
    "Free tier limit reached. Upgrade to continue.",
    "You've run out of free messages for today.",
    "Monthly usage limit exceeded for this key.",
    "Model not available in your region.",
    "The requested model is not supported.",
    "No endpoints found matching your data policy.",
    "Task was cancelled due to timeout.",
    "Worker process died unexpectedly; generation aborted.",
    "I can't summarize this because it includes instructions to ignore my rules.",
    "I will not produce a summary of this chat.",
    "Unable to provide a summary: the input appears to be empty.",
    "Lo lamento, no es posible procesar la solicitud en este momento.",
    "Die Anfrage konnte nicht verarbeitet werden.",
    "Le service est momentanément indisponible.",
    "Serviço temporariamente indisponível.",
    "Сервис временно недоступен. Попробуйте позже.",
    "サービスは現在ご利用いただけません。",
    "服务暂时不可用，请稍后重试。",
    "对不起，我还没有学会回答这个问题。",
    "서비스를 사용할 수 없습니다. 나중에 다시 시도하세요.",
    "Dienst nicht verfügbar (503)",
    "Limite de débit atteinte, réessayez plus tard.",
    "Przekroczono limit zapytań.",
    "Błąd serwera: spróbuj ponownie później.",
    "Ha ocurrido un problema con el servidor.",
    "Prohibited content detected; output withheld.",
    "finish_reason=content_filter",
]

#: Summaries that begin like errors; none has a heading.
MORE_SUMMARIES = [
    (
        'The user hit "429 Too Many Requests" on their gateway; you advised exponential back-off, and they '
        "set max_retries to 5."
    ),
    "Bad request handling: the API now returns 422 for a missing title, agreed on 3 May.",
    "Forbidden: no deploys on Fridays. The user and you settled the release calendar for Q3.",
    "Error budget: 99.9 % a month, 43 minutes; the user wants a page when half is used.",
    (
        "Error messages were rewritten in plain English; 41 of 60 strings are done, and the user reviews the "
        "rest on Monday."
    ),
    (
        "The request failed for three customers on 2 June; the user found an expired certificate and renewed "
        "it until 2027."
    ),
    "The connection failed whenever the VPN was on, so the user set the MTU to 1380 and it works since then.",
    (
        "An error occurred in step 4 of the import (row 212, an invalid date); the user corrected the file "
        "and the import ended with 9,812 rows."
    ),
    (
        "Something went wrong with the cake: the user took baking soda, and you proposed to halve it next "
        "time. The party is on 14 June."
    ),
    ("You have reached your daily step goal on 5 of 7 days, the user was told; they want a harder goal from 1 July."),
    (
        "The service is unavailable on Sundays between 2 and 4, the user said; you planned the migration for "
        "that window."
    ),
    "I am Groot is the password hint. The user asked you to keep the list of characters: Rocket, Drax, Gamora.",
    "I can't believe it's not butter is a brand the user mentioned; the recipe uses 200 g of it.",
    (
        "I won't give up, a song by Jason Mraz, is to be played at the wedding on 9 August; you made the "
        "playlist of 31 songs."
    ),
    (
        "As an AI language model course, the user picked CS224n; lectures 1 to 4 are done, and the exercise "
        "of week 5 is due on Friday."
    ),
    (
        "As an AI startup, the user's company needs a data policy; you drafted sections 1 to 3 and they "
        "approved the first."
    ),
    "Apologies to the customer were sent on 4 May; the user wants a refund of 49 EUR for each of the 12 orders.",
    (
        "Sorry for the long mail, the user began. They described a bug in checkout: the total is off by 0.01 "
        "when a coupon is used."
    ),
    (
        "Unfortunately, the flight on 3 May was cancelled, and the user can't travel before 7 May; you "
        "rebooked to LH 442."
    ),
    (
        "Unfortunately the model overfits: validation loss rises after epoch 12. The user will try again "
        "with dropout 0.3."
    ),
    "Sorry, an error message in Go was explained: the user shadowed err in the if block, line 42 of main.go.",
    "Traceback analysis: the user posted three tracebacks, all KeyError 'total'; you fixed orders.py line 88.",
    (
        "TypeError: 'NoneType' object is not iterable was the user's question. You explained that get_rows() "
        "returns None on an empty file and they added a guard; the tests pass now."
    ),
    (
        "RateLimitError: what it means and how to retry was explained; the user uses tenacity with 5 "
        "attempts, and the code is in client.py."
    ),
    "ValueError – the user met it in parse_date; you proposed datetime.fromisoformat, and they use Python 3.11.",
    (
        "Exception: employees in the Berlin office keep the old contract until 2026, the user decided; all "
        "others move on 1 July."
    ),
    "500 internal server error pages were redesigned, the user likes variant B.",
    "401(k) contributions: the user puts in 6 %, the employer matches 4 %, total 8,400 USD a year.",
    (
        "503 Service Unavailable was what the monitor saw at 02:14; the user traced it to the nightly backup "
        "and moved it to 04:00, which you noted in the runbook."
    ),
    '{"summary": "The user asked about errors", "errors": ["E1", "E2"]}',
    '{"title": "Trip to Rome", "message": "Flights booked for 3 May, hotel open.", "status": "open"}',
    (
        '{"detail": "The user wants a trip of nine days in May, with no more than two hotels and a budget of '
        '1,800 EUR."}'
    ),
    "Leider kann der Nutzer am 3. Mai nicht kommen; ihr habt den Termin auf den 10. Mai verschoben.",
    (
        "Es tut mir leid, schrieb die Nutzerin ihrem Chef; du hast den Brief gekürzt, und sie kann ihn am "
        "Montag abgeben."
    ),
    "Entschuldigungsschreiben: Die Nutzerin kann den Entwurf bis Freitag prüfen; offen ist nur die Anrede.",
    (
        "Désolée pour le retard, a écrit la cliente; l'utilisateur ne peut pas livrer avant le 12 mai et "
        "propose un bon de 20 EUR."
    ),
    ("Lo siento es el título del poema; la usuaria no puede cambiar la rima y pidió otra versión para el 3 de mayo."),
    "К сожалению, рейс отменён, и пользователь не может лететь до 7 мая; вы выбрали поезд 12.",
    "抱歉信已经写好：用户无法在五月三日前发货，决定给每位客户退款二十元，由安负责。",
    "申し訳ない気持ちを伝える手紙を書きました。利用者は五月三日に出席できませんが、花を送ることに決めました。",
    (
        "Service unavailable: the user asked for a maintenance page with that title, in blue, and you "
        "delivered maintenance.html."
    ),
    "The model is overloaded with features, the user thinks; 34 of 210 were dropped, and the AUC stays at 0.91.",
    "Out of credits, the user bought 500 more for 20 USD and asked to be reminded at 50.",
    "Invalid API key handling was added to login.py; tests 1 to 9 pass.",
    "<html> and <body> were explained to the user; they now build a page with a nav and a footer.",
    "Too many requests for refunds came in May: 212. The user wants a form by June.",
    "Your request has failed is the subject line that the user chose for the notification; the body is open.",
    (
        "This model's maximum context length is 8,192 tokens, so the user splits the documents into parts of "
        "3,000; chunk.py does it."
    ),
    "Error log review with Ann: 14 entries were duplicates, 3 are real; ticket OPS-212 is open.",
    "Connection pooling was tuned: max 20 connections, timeout 5 s. Load test on Friday.",
    "Timeout of 30 s agreed for all calls; retries are off.",
    "Model selection: gpt-4o-mini for drafts, gpt-4o for reviews. Budget 200 EUR a month.",
    ("The model is a Ford Focus from 2012 with 140,000 km; the price is 3,200 EUR and the inspection is due in May."),
    "The service at the restaurant was slow, Ben gave it 3 stars. Next dinner: 4 June, Thai.",
    "The server is called atlas and runs Debian 12; backups go to S3 at 02:00.",
    "The account is with ING, IBAN ending 4411. Rent of 900 EUR is paid on the 1st.",
    "Your account manager is Mr. Lee, who calls on Tuesday at 10.",
    "The message is ready: 120 words, friendly tone, sent to the board on 3 May.",
    "The request was approved by finance on 4 May; the order goes out this week.",
    "The response was positive: 41 of 50 customers want the feature. Launch on 1 July.",
    "Output: three PDFs, one per region. Open: the map of Bavaria.",
    "Request for leave: 3 to 14 August, approved by Kim.",
    "No answer from the landlord since 3 May; a letter goes out on Monday.",
    "No content for week 3 yet; weeks 1 and 2 are written (posts 1-8).",
    "No messages were sent to Bob so far, as Ann wants to call him first.",
    "Failed to qualify for the final: the team was 5th. Next race on 9 June in Lyon.",
    "Unable to travel before 7 May, Ann moved the meeting in Oslo to 12 May, 14:00.",
    "We are having dinner on 3 May with Kim and Lee, at 19:30, table for six.",
    "Rate limits: 60 per minute for free plans, 600 for paid ones; headers X-RateLimit-*.",
    "Quota: 20 seats, 14 used. Ann gets the next one.",
    "I-95 is closed, so the route goes over Route 1; arrival at 18:40.",
    "I can do magic is on the playlist, then Dreams and Africa.",
    "I could eat a horse, Ben joked; the menu has four courses, vegetarian for Kim.",
    "Access denied was a thriller Ben liked; next is The Firm.",
    "Not found yet: the red folder. Kim looks in the cellar.",
    "404 is the room number; the key is at the desk until 22:00.",
    "401 tests pass, 3 fail: login, logout, reset. Kim fixes them today.",
    "500 flyers are ordered at 45 EUR, delivery on 6 May.",
    "Unfortunately it rained, so the hike moved to 12 May; Ben brings the tent.",
    "Sorry seems to be the hardest word is the song for the show on 6 June.",
    "An error in row 12 was fixed: the VAT is 19 %, the total 238 EUR.",
    "Exception handling in Java was covered: checked, unchecked, finally. Next: streams.",
    "Please bring a cake, Kim asked; Ben bakes an apple pie for Sunday.",
    "No puede venir Ana el 3 de mayo; la reunión pasa al 10, a las 14:00, en Madrid.",
    "Ich kann nicht schlafen ist der Titel des Kapitels 3; Kapitel 4 ist bis Juni fertig.",
    "Kann ich den Vertrag kündigen, fragte Frau Weber; die Frist endet am 30. Juni.",
    "我不能说的秘密是下周要看的电影，票已买，五月三日晚八点。",
    "系统设计已定：三个服务，一个数据库，五月十日上线。",
    "エラー処理の方針が決まりました：再試行は三回、間隔は二秒。",
    "Leider hat es geregnet; die Feier ist jetzt am 12. Mai bei Frau Weber, 15 Gäste.",
    "오류 보고서는 금요일까지 김 씨가 작성하고, 회의는 5월 3일 오후 2시에 열린다.",
    "Request volume doubled in May to 4,100 a day; Kim adds a second node on Friday.",
    "Server moved to Frankfurt on 3 May; old one is off since the 5th.",
    "Service level: 99.5 %, agreed with Lee on 4 May, penalties start at 99.0 %.",
    "Model not final yet: random forest or XGBoost, decision on 12 May after the test set.",
    "Limit of 30 guests reached; Ann keeps a waiting list of four.",
    'You proposed three titles; Ann took the second, "Harbour Lights".',
    "You asked for the budget: 4,000 EUR, of which 1,200 are spent.",
    "You've been given the schema: orders(id, total), items(order_id, sku).",
    "Problem: the invoice total is off by 0.01; cause: rounding per line. Fix merged in PR 88.",
    "Issue with the heater at Elm St. 4 was fixed on 3 May by Mr. Ortiz, 120 USD.",
    "There was a long debate on tabs and spaces; Ann chose spaces, four of them.",
    "There is an open question on the visa: 90 days or a permit? Ben asks the consulate.",
    "The operation on the knee is on 9 May in room 12; no food after 22:00.",
    "The connection in Lyon is at 14:10, platform 5; the seats are 61 and 62.",
    "The prompt for the image: a red lighthouse at dusk, oil painting, 16:9.",
    "The content plan has 12 posts, 4 are written, Lee writes two more by Friday.",
    "The account closes on 31 May, 212.40 EUR go to the new one.",
    "Operation Overlord was the topic: 6 June 1944, five beaches; the essay has 1,200 words.",
    "We agreed on React and Django; the repository is acme/shop, branch main.",
    "I, Claudius is the book for June; May is for The Leopard.",
    'Cannot and can not: Ann asked for the difference; the style guide says "cannot".',
    "Could not load: the truck takes 900 kg, the piano and the safe weigh 1,050 kg together.",
    "Timeout rules of basketball: two in the first half, three in the second.",
    "Exceeded expectations: 1,312 sign-ups against 1,000 planned; the prize goes to Kim.",
    "Invalid votes were 14 of 312; the chair is Lee with 160.",
    "Missing: passport copy and the lease. Both by 9 May to Ms. Ortiz.",
    "Blocked: tickets 12 and 14 wait for the design; 15 is in review.",
    "Denied boarding on LH 442 means 600 EUR of compensation; Ben files it with code X7F2.",
    "Overloaded operators in C++ were covered: +, ==, <<. Next: templates.",
    "Loading dock opens at 6:00; two trucks, 14 pallets, contact Ortiz 555-0142.",
    "No puedo con la vida se llama el capítulo 2; el 3 se entrega el 9 de mayo.",
    "Je ne peux pas dormir: titre du poème; la version 3 est choisie, 14 vers.",
    "Nicht verfügbar: Raum 12 am 9. Mai, daher Raum 14, 10:00 Uhr, 12 Personen.",
    "Não posso: respondeu Ana ao convite de 9 de maio; nova data 12 de maio, 20h.",
    "服务器搬到法兰克福，五月三日完成，旧机器五日关闭。",
    "请稍等安的回复；报价四千元，五月九日前有效。",
    "エラー率は0.4%で、目標は0.2%。担当は田中さん、期限は五月九日。",
    "서버 이전은 5월 3일에 끝났고, 비용은 120만 원이다.",
    "Sorry, Charlie is a film of 1963? Ann says 1961; the list has 31 titles.",
    "Ошибка в отчёте исправлена: сумма 238 евро, НДС 19 %. Срок — 9 мая.",
]

#: Of issue trackers and logs, as gateways, proxies, local servers and models answer with 200.
NEVER_SEEN = [
    "connect ECONNREFUSED 127.0.0.1:11434 (ollama is not running on this host)",
    "Model meta-llama/Llama-3.1-8B is currently loading, please wait about 20 seconds.",
    "Conversation roles must alternate user/assistant/user/assistant/...",
    "Only user and assistant roles are supported!",
    # openclaw/openclaw#5224
    "Summary unavailable due to context limits. Older messages were truncated.",
    "Goal: (none)\nConstraints: (none)\nProgress: (none)\nDecisions: (none)",
    "no available server",
    "error code: 1033",
    "404 page not found",
    "stream timeout",
    "NVCF function is degraded, and cannot be invoked.",
    "You requested a model that is not compatible with this engine.",
    "Hello! How can I help you today?",
    "Sure! Please paste the conversation you'd like me to summarize.",
    "Sorry, we have detected unusual traffic from your network (IP 10.2.3.4).",
    "I'm sorry, but I can't summarize the talk about Casa Luxemburg, since it has data of Mirela and Horia.",
    "API Error: the backend is not reachable, try again in 20 s.",
    "<h1>502 Bad Gateway</h1>",
    'data: {"error":{"message":"Overloaded"}}\n\ndata: [DONE]',
    "The model `gpt-9` does not exist or you do not have access to it.",
    "null null null null null null null null",
    '{"error": "Rate limit reached", "documentation_url": "https://x.example/' + "a" * 300 + '"}',
    "## Summary\n\nI'm sorry, but I can't help with summarizing this conversation.",
    "# Recap\n\n## Status\n\nUnfortunately, I cannot process this request.",
    "## Zusammenfassung\n\nLeider kann ich dieses Gespräch nicht zusammenfassen, bitte versuche es später noch einmal.",
    # openclaw/openclaw#12921
    "## Goal\n(none - empty conversation)\n\n## Rules\n- (none)\n\n## Progress\n### Done\n- (none)\n\n## Next\n1. Wait",
    "## Decisions\nNo decisions were made in this talk.\n## Open\nNothing is open.\n## Rules\nNo rules were given.",
]

#: A summary of a few messages, and these messages.
SHORT = [
    (
        "Connection refused on port 5432 was the cause; PostgreSQL runs again.",
        "psql says connection refused, port 5432",
    ),
    ("You helped Priya rewrite her cover letter.", "I'm Priya. Make my cover letter shorter?\nDone, Priya: 200 words."),
    ("The user prefers metric units and short answers.", "I prefer metric units, and short answers please.\nNoted."),
    ("The user asked you to call Bo back.", "Remind me to call Bo back.\nI will remind you."),
    ("The tests pass after max_retries was raised.", "tests fail\nTry max_retries=5 in client.py.\npass now, thanks"),
    ("Der Termin mit Frau Weber ist am 9. Mai.", "Wann ist Frau Weber da?\nAm 9. Mai um zehn.\nGut, der Termin steht."),
    ("Le dîner chez Kim est à 19 h 30, sans noix.", "Kim dîne à 19 h 30. Pas de noix!\nC'est noté."),
    ("La reunión con Ana pasa al 10 de mayo.", "Ana no puede el 3, mejor el 10 de mayo.\nDe acuerdo."),
    (
        "La usuaria quiere el informe en español y sin tablas.",
        "Quiero el informe en español, sin tablas.\nBien, en español.",
    ),
    ("I can't help falling in love is the song for 9 June.", "Which song on 9 June?\nI can't help falling in love."),
    ("Unfortunately we could not process the refund of 49 EUR for Ann.", "refund Ann's 49 EUR\nIt was not possible."),
    ("Рейс отменён, Анна едет поездом 12.", "рейс отменён! что делать Анне?\nПоезд 12 идёт в шесть."),
    ("会议改到五月三日下午两点，由安负责通知。", "会议改到五月三日下午两点好吗？\n好的，由安负责通知大家。"),
    ("服务器搬到法兰克福，费用4000元。", "服务器要搬到法兰克福，预算多少？\n4000元。"),
    ("再試行は三回、間隔は二秒に決まりました。", "再試行は三回でいい？\nはい、間隔は二秒にしましょう。"),
    ("서버 이전은 5월 3일에 끝났고 비용은 120만 원이다.", "서버 이전 비용은?\n120만 원, 5월 3일에 끝났습니다."),
    ("اجتماع ليلى يوم 12 مايو في الساعة 10.", "متى اجتماع ليلى؟\nيوم 12 مايو، الساعة 10."),
    ("मीरा की यात्रा 12 मई को है, बजट 4000 रुपये।", "मीरा कब जाएगी?\n12 मई को, बजट 4000 रुपये।"),
    ("การประชุมเลื่อนไปวันที่ 12 พฤษภาคม", "เลื่อนการประชุมไปวันที่ 12 พฤษภาคมได้ไหม\nได้ครับ"),
    (
        "Sorry seems to be the hardest word is the song; Ben sings it.",
        "Which song for Ben?\nSorry seems to be the hardest word!",
    ),
    (
        "I can't log in was Ann's ticket; a reset of her password fixed it.",
        "Ann wrote: I can't log in.\nReset it.\nfixed",
    ),
    (
        "## Errors\n\nI can't log in, says the user; the server answers 503 since noon.",
        "I can't log in, 503 since noon",
    ),
    (
        "## Errors\n\nDisk full. It stopped the build of release 4.2.",
        "disk full, release 4.2 stopped\nFree some space.",
    ),
    (
        "The <think> tag is cut by proxy.py since Monday.",
        "why is <think> shown?\nproxy.py must cut it.\nok, since Monday it does",
    ),
    ('{"topic": "trip to Rome on 3 May", "open": ["hotel"]}', "Rome on 3 May, flights are booked\nAnd the hotel?"),
    ('{"summary": "Ann asked about errors E1 and E2", "errors": ["E1", "E2"]}', "Ann: what are E1 and E2?\nErrors."),
]


@pytest.mark.parametrize("text", [*ERRORS, *MORE_ERRORS, *NEVER_SEEN])
@pytest.mark.parametrize("replaced", [WEDDING, LONG], ids=["short", "long"])
def test_what_is_said_instead_of_a_summary_is_recognized(text, replaced):
    assert is_error_text(text) or tells_nothing(text, replaced)


@pytest.mark.parametrize(("text", "replaced"), SHORT)
def test_a_short_summary_of_a_few_messages_is_one(text, replaced):
    assert not is_error_text(text)
    assert not tells_nothing(text, replaced)


@pytest.mark.parametrize("text", [*SUMMARIES, *MORE_SUMMARIES])
def test_a_summary_may_speak_of_errors(text):
    """It replaces two messages with the same facts, in another order."""
    assert not is_error_text(text)
    first, second = text[: len(text) // 2], text[len(text) // 2 :]
    assert not tells_nothing(text, f"{second}\nWell, thank you. And what else is there?\n{first}")


def test_a_heading_shows_a_summary_and_a_placeholder_below_it_does_not():
    assert not tells_nothing("## Rocket\n\nThe user is building a rocket, and you help with it.", LONG)
    assert tells_nothing("## Rocket\n\n(none so far, as it seems)", LONG)
    assert not tells_nothing("## Wedding\n\nMirela, Sibiu, 80 guests", LONG)


@pytest.mark.parametrize(
    "piece", ["x", " ", "\u00a0", "#", "# ", "{", "<p", "<p>", "sorry ", "I can't ", "\n", "我", "1", "A "]
)
def test_long_runs_take_no_longer_than_their_length(piece):
    began = time.process_time()
    is_error_text(piece * 40_000)
    tells_nothing(piece * 130, piece * 40_000)
    tells_nothing(piece * 40_000, "")
    assert time.process_time() - began < 2
