"""The networks of `agents/networks.py` under their names; torch is imported when one is made."""

from consilience.agents.models import Cost, network_in

network_in(
    "consilience.agents.networks",
    {
        "linear": Cost(4, 0.004),
        "mlp": Cost(8, 0.006),
        "cnn": Cost(14, 0.07),
        "convnet": Cost(28, 0.03),
        "convnet-gn": Cost(28, 0.03),
        "resnet20": Cost(500, 1.0),
        "resnet20-gn": Cost(500, 1.0),
        "efficientnet": Cost(2000, 1.0),
        "efficientnet-gn": Cost(2000, 1.0),
        "efficientnet-pretrained": Cost(2000, 1.0),
    },
)
network_in("consilience.agents.scattering", {"scattering": Cost(10, 0.03)})
network_in("consilience.agents.scattering", {"wavelets": Cost(10, 0.03)})
