#!/bin/sh
# Four sites that share a task, laid out in the folder $1, for compose.yaml and for trials: keys, certificates from a
# throw-away CA, a quarter of the Wisconsin breast-cancer patients each, a model of its own kind each, one federation file.
#   ADDRESSES  where peers reach the four, host:port each (default: the names of the containers)
#   LISTEN     what each listens at, where that is not its address
set -eu
folder=$1
models="forest logistic boosting mlp"
set -- ${ADDRESSES:-alpha:7447 beta:7447 gamma:7447 delta:7447}

mkdir -p "$folder"
cd "$folder"
if [ -e federation.toml ]; then
    echo "$folder is laid out already; remove what is in it to begin again." >&2
    exit 1
fi
for site in alpha beta gamma delta; do
    consilience site init "$site" --address "$1" --trial-ca trial-ca --shared shared.npz --model "${models%% *}"
    models=${models#* }
    shift
done

python - <<'PYTHON'
import numpy as np
from sklearn.datasets import load_breast_cancer

bunch = load_breast_cancer(as_frame=True)
order = np.random.default_rng(0).permutation(len(bunch.frame))
shared, *parts = np.split(order, [120, 232, 344, 456])
np.savez("shared.npz", x=bunch.data.to_numpy(dtype=np.float32)[shared])
for site, rows in zip(["alpha", "beta", "gamma", "delta"], parts, strict=True):
    table = bunch.data.iloc[rows].astype("float32")
    table.assign(label=bunch.target_names[bunch.target.iloc[rows]]).to_csv(f"{site}/patients.csv", index=False)
PYTHON

consilience federation new demo ./*/member.toml --shared shared.npz --classes malignant,benign \
    --deadline 60 --set rounds=12
for site in alpha beta gamma; do
    consilience federation sign federation.toml --site "$site/site.toml"
done
for site in alpha beta gamma delta; do
    cp federation.toml shared.npz "$site/"
    sed -i "s|^listen = .*|listen = \"${LISTEN:-}\"|" "$site/site.toml"
done
echo "Laid out in $folder: alpha, beta, gamma, delta. Start each with: consilience site run --site NAME/site.toml"
