"""Texts: two vectorisers and a small transformer sort messages by topic. Labels are words.

The transformer is a Hugging Face model made from a configuration: nothing is downloaded.
"""

import numpy as np
import pandas as pd
import torch
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import MultinomialNB
from sklearn.pipeline import make_pipeline
from transformers import BertConfig, BertForSequenceClassification

import consilience as cs

TOPICS = {
    "garden": "soil seed rain leaf root bloom compost spade weed sun hedge pot",
    "kitchen": "oven flour salt knife bake pan butter onion soup spice bread dough",
    "travel": "train ticket map hotel border coast luggage flight road museum rain sun",
}
FILLER = ["the", "a", "of", "and", "with", "then", "we", "had", "some", "very", "new", "old", "my", "for", "was", "one"]


def messages(count: int, seed: int) -> tuple[list[str], list[str]]:
    """Made-up messages of twelve words, four of them from their topic, and the topics."""
    draw = np.random.default_rng(seed)
    labels = draw.choice(list(TOPICS), count).tolist()
    return [
        " ".join(draw.permutation([*draw.choice(TOPICS[label].split(), 4), *draw.choice(FILLER, 8)]))
        for label in labels
    ], labels


words = dict.fromkeys(["", *FILLER, *" ".join(TOPICS.values()).split()])
numbers = {word: number for number, word in enumerate(words)}


def tokens(texts: list[str]) -> dict[str, torch.Tensor]:
    """What the transformer reads: the number of each word."""
    ids = torch.tensor([[numbers[word] for word in text.split()] for text in texts])
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


torch.manual_seed(0)
config = BertConfig(
    vocab_size=len(numbers),
    hidden_size=32,
    num_hidden_layers=1,
    num_attention_heads=2,
    intermediate_size=64,
    max_position_embeddings=16,
    num_labels=3,
)
transformer = BertForSequenceClassification(config)
shared, target = messages(300, seed=10)[0], messages(400, seed=11)
private = [messages(30, seed) for seed in range(3)]
agents = [
    cs.SklearnAgent(make_pipeline(TfidfVectorizer(), LogisticRegression()), *private[0], name="tf-idf"),
    cs.SklearnAgent(make_pipeline(CountVectorizer(), MultinomialNB()), *private[1], name="counts"),
    cs.TorchAgent(
        transformer, *private[2], name="transformer", transform=tokens, training=cs.Training(batch=16, lr=0.003)
    ),
]
result = cs.collaborate(agents, shared, method=cs.Consensus(warmup=2), rounds=10, target=target)
scores = result.history.pivot(index="round", columns="agent", values="accuracy_target")
alone = result.run.references["alone"].last_round().set_index("agent")["accuracy_target"]
print(result.run.summary.classes)
print(pd.DataFrame({"alone": alone, "together": scores.iloc[-1]}).round(3))
