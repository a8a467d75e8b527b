"""Layers of the models that the papers train, for ten classes: the numbers of elements of each gradient."""


def _convolutions(channels, kernels=3, inputs=3):
    layers = []
    for place, outputs in enumerate(channels):
        size = kernels if isinstance(kernels, int) else kernels[place]
        layers += [inputs * outputs * size * size, outputs]
        inputs = outputs
    return layers


def _dense(*widths):
    return [each for inputs, outputs in zip(widths, widths[1:]) for each in (inputs * outputs, outputs)]


def alexnet():
    return _convolutions((64, 192, 384, 256, 256), (11, 5, 3, 3, 3)) + _dense(9216, 4096, 4096, 10)


def vgg19():
    return _convolutions([64] * 2 + [128] * 2 + [256] * 4 + [512] * 8) + _dense(25088, 4096, 4096, 10)


def resnet18():
    layers, inputs = [3 * 64 * 49, 64, 64], 64  # a convolution, and the two vectors of its normalization
    for width in (64, 128, 256, 512):
        for block in range(2):
            layers += [inputs * width * 9, width, width, width * width * 9, width, width]
            if inputs != width and block == 0:
                layers += [inputs * width, width, width]
            inputs = width
    return layers + _dense(512, 10)


MODELS = {"AlexNet": alexnet(), "VGG19": vgg19(), "ResNet18": resnet18()}
