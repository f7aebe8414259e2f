"""The folder trees of the 20 most used public sets, small: their images, their other files, and what is right."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from PIL import Image

PIXELS = 8


def images(pattern: str, *names: str, each: int = 2) -> list[str]:
    """Return so many paths for each name: ``{}`` is the name and ``#`` the number."""
    return [pattern.format(name).replace("#", str(number)) for name in names for number in range(1, each + 1)]


@dataclass(frozen=True)
class PublicSet:
    """The tree of a set, and its reading.

    ``classes`` are the right classes with their numbers of images; ``asked`` is the option that answers the one
    question that is asked first, with ``ROOT`` for the folder; ``parts`` are those of its own split.
    """

    images: Sequence[str]
    classes: Mapping[str, int]
    parts: Sequence[str] = ("",)
    files: Mapping[str, str] = field(default_factory=dict)
    asked: str = ""

    def write(self, root: Path) -> Path:
        """Write the tree, and return its folder."""
        for name in self.images:
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (PIXELS, PIXELS)).save(root / name)
        for name, text in self.files.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        return root


SPECIES = ("Turdus merula", "Pica pica")
INATURALIST = {
    "images": [{"id": n, "file_name": f"train_val2019/Birds/{n // 2}/{n}.jpg"} for n in range(4)],
    "annotations": [{"id": n, "image_id": n, "category_id": n // 2} for n in range(4)],
    "categories": [{"id": n, "name": name, "supercategory": "Birds"} for n, name in enumerate(SPECIES)],
}
OPEN_IMAGES_LABELS = """ImageID,Source,LabelName,Confidence
a1,verification,/m/01yrx,1
a1,verification,/m/0bt9lr,0
a2,verification,/m/01yrx,1
a3,verification,/m/0bt9lr,1
"""
OPEN_IMAGES_BOXES = """ImageID,Source,LabelName,Confidence,XMin,XMax,YMin,YMax,IsOccluded,IsTruncated,IsGroupOf
a1,xclick,/m/01yrx,1,0.25,0.75,0,0.5,0,0,0
a3,xclick,/m/0bt9lr,1,0,1,0,1,0,0,0
a3,xclick,/m/0bt9lr,1,0,1,0.5,1,0,0,1
"""
TWO = ("train", "holdout")

SETS = {
    "CIFAR-10 as folders": PublicSet(
        [*images("train/{}/#.png", "airplane", "frog"), *images("test/{}/#.png", "airplane", "frog")],
        {"airplane": 4, "frog": 4},
        TWO,
    ),
    "Intel scenes": PublicSet(
        [
            *images("seg_train/seg_train/{}/#.jpg", "forest", "sea"),
            *images("seg_test/seg_test/{}/#.jpg", "forest", "sea"),
            "seg_pred/seg_pred/3.jpg",
        ],
        {"forest": 4, "sea": 4},
        TWO,
    ),
    "ASL alphabet": PublicSet(
        [
            *images("asl_alphabet_train/asl_alphabet_train/{0}/{0}#.jpg", "A", "del", "nothing"),
            "asl_alphabet_test/asl_alphabet_test/A_test.jpg",
        ],
        {"A": 2, "del": 2, "nothing": 2},
    ),
    "Oxford pets": PublicSet(
        [
            *images("images/{}_#.jpg", "Abyssinian", "american_bulldog"),
            *images("annotations/trimaps/{}_#.png", "Abyssinian", "american_bulldog"),
        ],
        {"Abyssinian": 2, "american_bulldog": 2},
        files={
            "annotations/list.txt": "#Image CLASS-ID SPECIES BREED ID\nAbyssinian_1 1 1 1\n",
            "annotations/xmls/Abyssinian_1.xml": "<annotation><filename>Abyssinian_1.jpg</filename></annotation>",
        },
        asked="ROOT/images/{class}_#.jpg",
    ),
    "Stanford Dogs": PublicSet(
        images("images/Images/{0}/{0}_#.jpg", "n02085620-Chihuahua", "n02085782-Japanese_spaniel"),
        {"n02085620-Chihuahua": 2, "n02085782-Japanese_spaniel": 2},
        files={"annotations/Annotation/n02085620-Chihuahua/n02085620_1": "<annotation/>"},
    ),
    "CUB-200": PublicSet(
        [
            *images("CUB_200_2011/images/{}/Bird_#.jpg", "001.Black_footed_Albatross", "002.Laysan_Albatross"),
            *images("segmentations/{}/Bird_#.png", "001.Black_footed_Albatross", "002.Laysan_Albatross"),
        ],
        {"001.Black_footed_Albatross": 2, "002.Laysan_Albatross": 2},
        files={
            "CUB_200_2011/images.txt": "1 001.Black_footed_Albatross/Bird_1.jpg\n",
            "CUB_200_2011/train_test_split.txt": "1 0\n",
        },
    ),
    "Food-101": PublicSet(
        images("food-101/images/{}/#.jpg", "apple_pie", "baby_back_ribs"),
        {"apple_pie": 2, "baby_back_ribs": 2},
        files={
            "food-101/meta/train.json": json.dumps({"apple_pie": ["apple_pie/1"], "baby_back_ribs": []}),
            "food-101/meta/classes.txt": "apple_pie\nbaby_back_ribs\n",
        },
    ),
    "iNaturalist 2019": PublicSet(
        [f"train_val2019/Birds/{number // 2}/{number}.jpg" for number in range(4)],
        {"Turdus merula": 2, "Pica pica": 2},
        files={"train2019.json": json.dumps(INATURALIST)},
    ),
    "Open Images": PublicSet(
        images("train/{}.jpg", "a1", "a2", "a3", each=1),
        {"Cat": 2, "Dog": 1},
        files={
            "train-annotations-human-imagelabels.csv": OPEN_IMAGES_LABELS,
            "train-annotations-bbox.csv": OPEN_IMAGES_BOXES,
            "class-descriptions.csv": "/m/01yrx,Cat\n/m/0bt9lr,Dog\n",
        },
    ),
    "PlantVillage": PublicSet(
        [
            image
            for kind in ("color", "grayscale", "segmented")
            for image in images(f"plantvillage dataset/{kind}/{{}}/#.jpg", "Apple___Black_rot", "Apple___healthy")
        ],
        {"Apple___Black_rot": 6, "Apple___healthy": 6},
        asked="ROOT/plantvillage dataset/**",
    ),
    "EuroSAT": PublicSet(images("EuroSAT/2750/{0}/{0}_#.jpg", "Forest", "River"), {"Forest": 2, "River": 2}),
    "GTSRB": PublicSet(
        [
            *images("Train/{}/a_#.png", "0", "1"),
            *images("Test/{}.png", "c", "d", each=1),
            *images("Meta/{}.png", "0", "1", each=1),
        ],
        {"0": 3, "1": 3},
        TWO,
        files={
            "Train.csv": "Width,ClassId,Path\n30,0,Train/0/a_1.png\n30,0,Train/0/a_2.png\n"
            "30,1,Train/1/a_1.png\n30,1,Train/1/a_2.png\n",
            "Test.csv": "Width,ClassId,Path\n30,1,Test/c.png\n30,0,Test/d.png\n",
            "Meta.csv": "Path,ClassId\nMeta/0.png,0\nMeta/1.png,1\n",
        },
    ),
    "Caltech-101": PublicSet(
        images("caltech-101/101_ObjectCategories/{}/image_000#.jpg", "accordion", "BACKGROUND_Google"),
        {"accordion": 2, "BACKGROUND_Google": 2},
        files={"caltech-101/Annotations.tar": ""},
    ),
    "DTD": PublicSet(
        images("dtd/images/{0}/{0}_000#.jpg", "banded", "blotchy"),
        {"banded": 2, "blotchy": 2},
        files={"dtd/labels/train1.txt": "banded/banded_0001.jpg\n", "dtd/imdb/imdb.mat": ""},
    ),
    "LFW": PublicSet(
        images("lfw-deepfunneled/lfw-deepfunneled/{0}/{0}_000#.jpg", "Aaron_Eckhart", "Aaron_Guiel"),
        {"Aaron_Eckhart": 2, "Aaron_Guiel": 2},
        files={
            "lfw_allnames.csv": "name,images\nAaron_Eckhart,2\nAaron_Guiel,2\n",
            "peopleDevTest.csv": "name,images\nAaron_Guiel,2\n",
            "pairs.csv": "name,imagenum1,imagenum2,\nAaron_Guiel,1,2,\n",
        },
    ),
    "HAM10000": PublicSet(
        ["HAM10000_images_part_1/a.jpg", "HAM10000_images_part_2/b.jpg"],
        {"nv": 1, "mel": 1},
        files={
            "HAM10000_metadata.csv": "lesion_id,image_id,dx,age\n1,a,nv,30\n2,b,mel,40\n",
            "hmnist_28_28_L.csv": "pixel0000,pixel0001,label\n1,2,0\n",
        },
    ),
    "APTOS": PublicSet(
        ["train_images/a.png", "train_images/b.png", "test_images/c.png"],
        {"0": 1, "2": 1},
        files={
            "train.csv": "id_code,diagnosis\na,0\nb,2\n",
            "test.csv": "id_code\nc\n",
            "sample_submission.csv": "id_code,diagnosis\nc,0\n",
        },
    ),
    "Cassava": PublicSet(
        ["train_images/1.jpg", "train_images/2.jpg", "test_images/3.jpg"],
        {"0": 1, "3": 1},
        files={
            "train.csv": "image_id,label\n1.jpg,0\n2.jpg,3\n",
            "sample_submission.csv": "image_id,label\n3.jpg,4\n",
            "label_num_to_disease_map.json": json.dumps({"0": "Bacterial Blight", "3": "Mosaic Disease"}),
        },
    ),
    "dog breeds": PublicSet(
        ["train/a.jpg", "train/b.jpg", "test/c.jpg"],
        {"beagle": 1, "boxer": 1},
        files={"labels.csv": "id,breed\na,beagle\nb,boxer\n", "sample_submission.csv": "id,beagle,boxer\nc,0.5,0.5\n"},
    ),
    "cats and dogs": PublicSet(
        [*images("train/{}.#.jpg", "cat", "dog"), *images("test1/{}.jpg", "1", "2", each=1)],
        {"cat": 2, "dog": 2},
        files={"sampleSubmission.csv": "id,label\n1,0\n"},
        asked="ROOT/train/{class}.#.jpg",
    ),
}
"""The sets by their names."""
