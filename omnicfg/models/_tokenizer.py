"""A small byte-level BPE tokenizer: any text round-trips, words of our own subject are single tokens."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

END_OF_TEXT = "<|endoftext|>"
TURN_START = "<|im_start|>"
TURN_END = "<|im_end|>"
VISION_START, VISION_END = "<|vision_start|>", "<|vision_end|>"
IMAGE, VIDEO, AUDIO = "<|image_pad|>", "<|video_pad|>", "<|audio_pad|>"
AUDIO_START, AUDIO_END = "<|audio_start|>", "<|audio_end|>"
SPEECH_PAD, SPEECH_START, SPEECH_END = "<tts_pad>", "<tts_text_bos>", "<tts_text_eod>"
MEDIA_TOKENS = {
    "image_token": IMAGE,
    "audio_token": AUDIO,
    "video_token": VIDEO,
    "vision_bos_token": VISION_START,
    "vision_eos_token": VISION_END,
    "audio_bos_token": AUDIO_START,
    "audio_eos_token": AUDIO_END,
}
"""What transformers' ``Qwen3OmniMoeProcessor`` asks its tokenizer for."""
SPECIAL_TOKENS = (
    END_OF_TEXT,
    TURN_START,
    TURN_END,
    VISION_START,
    VISION_END,
    IMAGE,
    VIDEO,
    AUDIO,
    AUDIO_START,
    AUDIO_END,
    SPEECH_PAD,
    SPEECH_START,
    SPEECH_END,
)
ROLES = ("system", "user", "assistant")
"""A Talker tells whose turn it is from the one token after a turn's start."""

CHAT_TEMPLATE = """\
{%- for message in messages -%}
{{ '<|im_start|>' + message.role + '\\n' }}
{%- if message.content is string -%}
{{ message.content }}
{%- else -%}
{%- for part in message.content -%}
{%- if part.type == 'text' -%}
{{ part.text }}
{%- elif part.type in ('image', 'image_url') -%}
{{ '<|vision_start|><|image_pad|><|vision_end|>' }}
{%- elif part.type in ('video', 'video_url') -%}
{{ '<|vision_start|><|video_pad|><|vision_end|>' }}
{%- elif part.type in ('audio', 'audio_url', 'input_audio') -%}
{{ '<|audio_start|><|audio_pad|><|audio_end|>' }}
{%- endif -%}
{%- endfor -%}
{%- endif -%}
{{ '<|im_end|>\\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ '<|im_start|>assistant\\n' }}{%- endif -%}
"""

# What the merges are learned from. The words matter little: they only have to be many, and always the same.
CORPUS = """\
A stage reads what the stage before it has made, and a profile says how each of them is to run. The thinker
listens, looks and answers in text; the talker turns that answer into codes of sound; the vocoder makes the
wave that a loudspeaker plays. Between them go rows of numbers, one for every token of the prompt and of the
answer. When two requests begin with the same words, the second one need not compute them again: their keys
and values lie in memory, block by block, under a name that is made from the tokens themselves. This is the
prefix cache, and a hit in it is time that nobody has to wait. The longer the shared prompt, the more a hit
saves before the first token is heard. An overlay changes a few values of a profile and leaves the others
alone. A platform has its own block, and what stands there wins over what stands above it. Every value knows
where it came from: the file, the line and the column. If a key is misspelt, say so, and say which key was
meant. If a device is asked for more memory than it has, say how much is asked and by whom. If nothing is
wrong, say nothing. One two three four five six seven eight nine ten eleven twelve. Monday Tuesday Wednesday
Thursday Friday Saturday Sunday. January February March April May June July August September October
November December. Spring summer autumn winter. Who what when where why how which whose. I you he she it we
they me him her us them my your his its our their this that these those. Be am is are was were been being
have has had do does did will would can could shall should may might must. Red green blue yellow black white
grey brown orange purple. North south east west up down left right near far here there. Water fire earth air
stone wood iron glass paper salt bread milk apple pear plum rice tea coffee sugar oil. Morning noon evening
night day week month year hour minute second today tomorrow yesterday always never often seldom. Good bad
small large long short old new young early late first last next same other many few more most less least.
Ask answer begin end bring carry choose close come count cut draw drink drive eat fall find fly follow give
go grow hear help hold keep know laugh learn leave lend let listen look lose make meet move need open pay
play point put read rest ride rise run see sell send set show sing sit sleep speak spend stand start stay
stop take talk teach tell think throw try turn understand use wait wake walk want wash watch wear win work
write. The house by the river has a blue door. Rain fell all night on the road to the sea. She keeps bees
and sells the honey. He wrote three letters and sent none of them. The train was late again, so we walked.
Please speak a little slower. The system speaks first, then the user, then the assistant; a system, a user
and an assistant make a conversation. What time does the library open? It opens at nine and closes at six.
Thank you, that is all I wanted to know.
"""


def write_tokenizer(directory: Path, vocabulary_size: int) -> None:
    """Writes ``tokenizer.json``, its configuration and the chat template into ``directory``.

    The vocabulary holds the special tokens and the roles at its end and exactly ``vocabulary_size`` entries in all.
    Learning the merges is deterministic: equal counts are ordered by token id.
    """
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary_size - len(SPECIAL_TOKENS) - len(ROLES),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(CORPUS.splitlines(), trainer)
    tokenizer.add_special_tokens(list(SPECIAL_TOKENS))
    tokenizer.add_tokens([AddedToken(role, single_word=True, normalized=False) for role in ROLES])
    if tokenizer.get_vocab_size() != vocabulary_size:
        raise ValueError(f"the corpus yields {tokenizer.get_vocab_size()} tokens, not {vocabulary_size}")
    tokenizer.save(str(directory / "tokenizer.json"))
    write_json(directory / "tokenizer_config.json", _tokenizer_config())
    (directory / "chat_template.jinja").write_text(CHAT_TEMPLATE, encoding="utf-8")


def special_token_id(token: str, vocabulary_size: int) -> int:
    """The id of a special token or a role in a vocabulary of that size."""
    last = (*SPECIAL_TOKENS, *ROLES)
    return vocabulary_size - len(last) + last.index(token)


def write_json(path: Path, value: dict[str, Any] | Sequence[Any]) -> None:
    path.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")


def _tokenizer_config() -> dict[str, Any]:
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "clean_up_tokenization_spaces": False,
        "eos_token": TURN_END,
        "pad_token": END_OF_TEXT,
        "additional_special_tokens": [token for token in SPECIAL_TOKENS if token not in {END_OF_TEXT, TURN_END}],
        "extra_special_tokens": MEDIA_TOKENS,
        "model_max_length": 8192,
    }
