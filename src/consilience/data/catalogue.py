"""The catalogue: what is known of every dataset that comes with the package, and where real ones are found."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Source:
    """Where a dataset is found on the Hugging Face hub, and what its columns are called there."""

    hub: str
    folders: tuple[str, ...]
    """Names of a local copy; the first one that is there is taken."""
    image: str
    """The column of the inputs: images, or text."""
    label: str
    side: int
    """Height and width that images are brought to, unless asked for others; or the number of features of text."""
    classes: tuple[str, ...] = ()
    """Where the files do not name them."""
    group: str = ""
    group_names: tuple[str, ...] = ()
    config: str = ""
    """The part of the dataset, where it has several: a folder of that name in a local copy."""
    parts: tuple[str, ...] = ("train", "test")
    channels: int = 3
    """Of images: 3 for colour, 1 for grey."""


@dataclass(frozen=True)
class CatalogueEntry:
    """A dataset in the catalogue."""

    what: str
    licence: str
    source: Source | None = None
    where: str = "comes with scikit-learn"
    """How to get it, where that is not the hub."""


SOURCES = {
    "cifar10": Source("uoft-cs/cifar10", ("cifar10",), "img", "label", 32),
    "cifar100": Source("uoft-cs/cifar100", ("cifar100", "cifar100-fifth"), "img", "fine_label", 32),
    "fed-isic2019": Source(
        "flwrlabs/fed-isic2019",
        ("fed-isic2019", "fed-isic2019-84px"),
        "image",
        "label",
        64,
        classes=("MEL", "NV", "BCC", "AK", "BKL", "DF", "VASC", "SCC"),
        group="center",
        group_names=("bcn", "vidir_molemax", "vidir_modern", "rosendahl", "msk4", "vienna_dias"),
    ),
    "mnist": Source("ylecun/mnist", ("mnist",), "image", "label", 28, channels=1),
    "fashion-mnist": Source(
        "zalando-datasets/fashion_mnist", ("fashion-mnist", "fashion_mnist"), "image", "label", 28, channels=1
    ),
    "femnist": Source(
        "flwrlabs/femnist",
        ("femnist",),
        "image",
        "character",
        28,
        group="writer_id",
        parts=("train",),
        channels=1,
    ),
    "svhn": Source("ufldl-stanford/svhn", ("svhn",), "image", "label", 32, config="cropped_digits"),
    "tiny-imagenet": Source(
        "zh-plus/tiny-imagenet", ("tiny-imagenet",), "image", "label", 64, parts=("train", "valid")
    ),
    "pacs": Source(
        "flwrlabs/pacs",
        ("pacs", "pacs-112px"),
        "image",
        "label",
        112,
        classes=("dog", "elephant", "giraffe", "guitar", "horse", "house", "person"),
        group="domain",
        group_names=("art_painting", "cartoon", "photo", "sketch"),
        parts=("train",),
    ),
    "ag-news": Source("fancyzhx/ag_news", ("ag-news", "ag_news"), "text", "label", 1024),
    "adult": Source(
        "scikit-learn/adult-census-income", ("adult", "adult-census-income"), "", "income", 0, parts=("train",)
    ),
}

UCI = "not confirmed; UCI's policy: CC BY 4.0"
CATALOGUE = {
    "digits": CatalogueEntry("1,797 handwritten digits, 8x8, grey", UCI),
    "digit-properties": CatalogueEntry("the same with four yes-or-no labels: even, prime, above four, loop", UCI),
    "breast-cancer": CatalogueEntry("569 patients, 30 features, two classes", UCI),
    "heart-disease": CatalogueEntry(
        "740 patients of four hospitals, ten features, two classes",
        "CC BY 4.0",
        where="the four processed files of UCI's heart disease dataset in a folder heart-disease",
    ),
    "polynomial": CatalogueEntry("the paper's regression example", "made here", where="made when asked for"),
    "mnist": CatalogueEntry("70,000 handwritten digits, 28x28, grey", "CC BY-SA 3.0", SOURCES["mnist"]),
    "fashion-mnist": CatalogueEntry("70,000 clothes in ten classes, 28x28, grey", "MIT", SOURCES["fashion-mnist"]),
    "femnist": CatalogueEntry(
        "handwritten characters in 62 classes, 28x28, grey: of 814,277 those of the busiest writers, "
        "one for each agent",
        "BSD-2-Clause",
        SOURCES["femnist"],
    ),
    "svhn": CatalogueEntry("99,289 house numbers, 32x32", "other: see its page", SOURCES["svhn"]),
    "cifar10": CatalogueEntry("60,000 pictures in ten classes, 32x32", "unknown (hub)", SOURCES["cifar10"]),
    "cifar100": CatalogueEntry("60,000 pictures in a hundred classes, 32x32", "unknown (hub)", SOURCES["cifar100"]),
    "tiny-imagenet": CatalogueEntry(
        "110,000 pictures in 200 classes, 64x64", "see its page; ImageNet's terms", SOURCES["tiny-imagenet"]
    ),
    "fed-isic2019": CatalogueEntry(
        "23,247 skin lesions of six hospitals, eight classes, 64x64", "CC BY-NC 4.0", SOURCES["fed-isic2019"]
    ),
    "pacs": CatalogueEntry(
        "9,991 photographs, paintings, cartoons and sketches in seven classes, 112x112",
        "none; for research",
        SOURCES["pacs"],
    ),
    "fdu-mtl": CatalogueEntry(
        "31,780 reviews of 16 domains, good or bad, and 7,975 without a label, which are shared",
        "none; for research",
        where="the reviews of Liu, Qiu and Huang (ACL 2017) as parquet files train, test and unlabelled with the "
        "columns text, label and domain, in a folder fdu-mtl/data",
    ),
    "ag-news": CatalogueEntry(
        "127,600 news items in four classes, as 1,024 counts of hashed words", "none; for research", SOURCES["ag-news"]
    ),
    "adult": CatalogueEntry(
        "32,561 people of the US census of 1994: more than 50,000 dollars a year?",
        "CC0 1.0 (hub)",
        SOURCES["adult"],
    ),
}


def how_to_get(entry: CatalogueEntry) -> str:
    """Where a dataset comes from, in a few words."""
    return f"hub: {entry.source.hub}" if entry.source else entry.where
