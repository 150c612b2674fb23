"""Data sets that several papers use, for their plans.

The samples digests were computed without the images: that of CIFAR-100 from its labels and class
names, that of miniImageNet from the lists train.csv and test.csv beside CEC's session lists (they
hold all images of the session lists), with the ids that `extract` gives.
"""

from .plan import DataSet, PreparedFile

ASK = "not stated in the papers; read them where the data are published"
OF_IMAGENET = "not stated in the papers; the images are ImageNet's, which has terms of access"

CIFAR100 = DataSet(
    name="CIFAR-100",
    home="https://www.cs.toronto.edu/~kriz/cifar.html",
    terms=ASK,
    layout="nothing to arrange: extract downloads it to ~/.cache/embedbench. Without a network, "
    "put cifar-100-python.tar.gz into a folder ROOT and write torch/cifar100@ROOT",
    classes=100,
    samples={"train": 50_000, "test": 10_000},
    digest="2473e71d333dd933407a4fcb33f987d5d0db757a4af6cdcdff150667f91110fe",
    made=(
        PreparedFile(
            "cifar100-32.h5",
            ("embedbench extract torch/cifar100 --backbone none --size 32 --out cifar100-32.h5",),
            32 * 32 * 3,
            1,
        ),
    ),
)

CUB200 = DataSet(
    name="CUB-200-2011",
    home="https://www.vision.caltech.edu/datasets/cub_200_2011/",
    terms=ASK,
    layout="the folder of the archive as it is: CUB_200_2011/ with images/, images.txt, "
    "image_class_labels.txt, train_test_split.txt and classes.txt",
    arrange=("tar xf CUB_200_2011.tgz",),
    classes=200,
    samples={"train": 5_994, "test": 5_794},
    made=(),
)

MINI_IMAGENET = DataSet(
    name="miniImageNet, as few-shot class-incremental learning splits it",
    home="https://github.com/icoz69/CEC-CVPR2021 (images and lists; the images are ImageNet's)",
    terms=OF_IMAGENET,
    layout="mini-imagenet/train/WNID/NAME.jpg with 500 images a class, and mini-imagenet/test/"
    "WNID/NAME.jpg with 100; below from a folder images/ with all 60,000, and the lists train.csv "
    "and test.csv (filename,label) of data/index_list/mini_imagenet",
    arrange=(
        "for part in train test; do tail -n +2 $part.csv | tr -d '\\r' | while IFS=, read -r f w; "
        'do mkdir -p "mini-imagenet/$part/$w"; cp "images/$f" "mini-imagenet/$part/$w/"; done; '
        "done",
    ),
    classes=100,
    samples={"train": 50_000, "test": 10_000},
    digest="662cc9b47a7dca8f6a573aacb6dbe0c0a473dd0bcadaee03ed769ed20e872d0f",
    made=(),
)

TINY_IMAGENET = DataSet(
    name="Tiny ImageNet",
    home="http://cs231n.stanford.edu/tiny-imagenet-200.zip",
    terms=OF_IMAGENET,
    layout="tiny/train/WNID/NAME.JPEG with 500 images a class, and tiny/val/WNID/NAME.JPEG with "
    "50; the validation images are the test images here, for those of the archive's test/ have no "
    "published labels",
    arrange=(
        "unzip -q tiny-imagenet-200.zip",
        "mkdir -p tiny/train tiny/val",
        "for c in tiny-imagenet-200/train/*/; do w=$(basename $c); mkdir tiny/train/$w; "
        "cp $c/images/*.JPEG tiny/train/$w/; done",
        "while read -r f w rest; do mkdir -p tiny/val/$w; cp tiny-imagenet-200/val/images/$f "
        "tiny/val/$w/; done < tiny-imagenet-200/val/val_annotations.txt",
    ),
    classes=200,
    samples={"train": 100_000, "test": 10_000},
    made=(
        PreparedFile(
            "tiny-imagenet-64.h5",
            ("embedbench extract tiny --backbone none --size 64 --out tiny-imagenet-64.h5",),
            64 * 64 * 3,
            1,
        ),
    ),
)

IMAGENET = DataSet(
    name="ImageNet, ILSVRC 2012",
    home="https://www.image-net.org/ (an account; training and validation images, devkit)",
    terms=OF_IMAGENET,
    layout="imagenet/train/WNID/NAME.JPEG and imagenet/val/WNID/NAME.JPEG, as torchvision unpacks "
    "ILSVRC2012_img_train.tar, ILSVRC2012_img_val.tar and ILSVRC2012_devkit_t12.tar.gz that lie in "
    "imagenet/; the validation images are the test images here",
    arrange=(
        'python -c "from torchvision.datasets import ImageNet as I; '
        "I('imagenet', 'train'); I('imagenet', 'val')\"",
    ),
    classes=1000,
    samples={"train": 1_281_167, "test": 50_000},
    made=(
        PreparedFile(
            "imagenet-224.h5",
            ("embedbench extract imagenet --backbone none --size 224 --out imagenet-224.h5",),
            224 * 224 * 3,
            1,
        ),
    ),
)
