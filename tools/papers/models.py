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


def inception_v3():
    layers = []

    def convolve(inputs, *outputs_and_windows):
        """Convolutions one after the other, each with the two vectors of its normalization."""
        for outputs, window in outputs_and_windows:
            layers.extend([inputs * outputs * window, outputs, outputs])
            inputs = outputs

    convolve(3, (32, 9), (32, 9), (64, 9), (80, 1), (192, 9))
    for inputs, pool in ((192, 32), (256, 64), (288, 64)):
        for branch in (((64, 1),), ((48, 1), (64, 25)), ((64, 1), (96, 9), (96, 9)), ((pool, 1),)):
            convolve(inputs, *branch)
    convolve(288, (384, 9))
    convolve(288, (64, 1), (96, 9), (96, 9))
    for width in (128, 160, 160, 192):
        for branch in (((192, 1),), ((width, 1), (width, 7), (192, 7)), ((width, 1), *[(width, 7)] * 3, (192, 7)), ((192, 1),)):
            convolve(768, *branch)
    convolve(768, (192, 1), (320, 9))
    convolve(768, (192, 1), (192, 7), (192, 7), (192, 9))
    for inputs in (1280, 2048):
        for branch in (((320, 1),), ((384, 1), (384, 3)), ((448, 1), (384, 9), (384, 3)), ((192, 1),)):
            convolve(inputs, *branch)
        convolve(384, (384, 3))  # the other halves of two branches
        convolve(384, (384, 3))
    return layers + _dense(2048, 10)


MODELS = {"AlexNet": alexnet(), "VGG19": vgg19(), "Inception-V3": inception_v3(), "ResNet18": resnet18()}
# Rows and columns of their fully connected layers.
DENSE = {"AlexNet": [(9216, 4096), (4096, 4096), (4096, 10)], "VGG19": [(25088, 4096), (4096, 4096), (4096, 10)],
         "Inception-V3": [(2048, 10)], "ResNet18": [(512, 10)]}
