"""The child process of `models.py`: `python -m tests.rig.llm_server MODEL KEY SENTENCE`.

Makes the model that answers SENTENCE, serves it with llama.cpp's server on a free port of the loopback,
prints `listening at URL` and ends when its standard input does.

The model has some 100 KB and one layer that adds nothing (all its weights are zero), so the next token
depends on the last one alone: the embedding gives each word of the sentence a separate dimension and all
other tokens dimension 0, and the output matrix maps each of them to its successor. Greedy decoding then
outputs the sentence after any prompt, and stops.
"""

import sys
from pathlib import Path

import gguf
import numpy as np
import xllamacpp  # type: ignore[import-untyped]

WIDTH = 64
_WEIGHT = 5.0
_CONTROL, _UNKNOWN, _BYTE, _NORMAL = 3, 2, 6, 1
_TEMPLATE = "{% for m in messages %}{{ m['role'] + ': ' + m['content'] + '\n' }}{% endfor %}"


def write_model(path: Path, sentence: str) -> None:
    """Write the model that says `sentence`, whose words must differ and be fewer than 64."""
    words = ["\u2581" + word for word in sentence.split()]
    if len(set(words)) != len(words) or len(words) >= WIDTH:
        raise ValueError("the words must differ and be fewer than 64")
    specials = [("<unk>", _UNKNOWN), ("<s>", _CONTROL), ("</s>", _CONTROL)]
    tokens = specials + [(f"<0x{byte:02X}>", _BYTE) for byte in range(256)] + [("\u2581", _NORMAL)]
    first = len(tokens)
    tokens += [(word, _NORMAL) for word in words]
    writer = gguf.GGUFWriter(path, "llama")
    _describe(writer, tokens)
    _weigh(writer, len(tokens), range(first, len(tokens)))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _describe(writer: gguf.GGUFWriter, tokens: list[tuple[str, int]]) -> None:
    writer.add_context_length(2048)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(1)
    writer.add_feed_forward_length(WIDTH)
    writer.add_head_count(2)
    writer.add_head_count_kv(1)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(WIDTH // 2)
    writer.add_vocab_size(len(tokens))
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    writer.add_tokenizer_model("llama")
    writer.add_tokenizer_pre("default")
    writer.add_token_list([text for text, _ in tokens])
    writer.add_token_scores([-float(number) for number in range(len(tokens))])
    writer.add_token_types([kind for _, kind in tokens])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_chat_template(_TEMPLATE)


def _weigh(writer: gguf.GGUFWriter, token_count: int, words: range) -> None:
    embedding = np.zeros((token_count, WIDTH), np.float32)
    output = np.zeros((token_count, WIDTH), np.float32)
    embedding[:, 0] = 1
    for dimension, token in enumerate(words, start=1):
        embedding[token] = 0
        embedding[token, dimension] = 1
    end_of_sentence = 2
    for dimension, token in enumerate([*words, end_of_sentence]):
        output[token, dimension] = _WEIGHT
    ones = np.ones(WIDTH, np.float32)
    square = np.zeros((WIDTH, WIDTH), np.float32)
    narrow = np.zeros((WIDTH // 2, WIDTH), np.float32)
    writer.add_tensor("token_embd.weight", embedding)
    writer.add_tensor("output.weight", output)
    for name in ("output_norm", "blk.0.attn_norm", "blk.0.ffn_norm"):
        writer.add_tensor(f"{name}.weight", ones)
    for name in ("attn_q", "attn_output", "ffn_gate", "ffn_up", "ffn_down"):
        writer.add_tensor(f"blk.0.{name}.weight", square)
    for name in ("attn_k", "attn_v"):
        writer.add_tensor(f"blk.0.{name}.weight", narrow)


def _main(model: str, key: str, sentence: str) -> None:
    write_model(Path(model), sentence)
    parameters = xllamacpp.CommonParams()
    parameters.model.path = model
    parameters.port = 0
    parameters.api_keys = [key]
    parameters.ui = False
    parameters.fit_params = False
    parameters.cache_ram_mib = 0
    parameters.n_ctx = 2048
    server = xllamacpp.Server(parameters)
    sys.stdout.write(f"listening at {server.listening_address}\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    _main(*sys.argv[1:])
