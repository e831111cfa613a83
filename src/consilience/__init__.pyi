"""The public names of consilience, each where it is defined. `__init__.py` loads them when they are first used."""

from consilience import core as core
from consilience import extend as extend
from consilience import loggers as loggers
from consilience.agents.backbones.backbone import Backbone as Backbone
from consilience.agents.check import check_agent as check_agent
from consilience.agents.sklearn_agent import SklearnAgent as SklearnAgent
from consilience.agents.torch_agent import TorchAgent as TorchAgent
from consilience.agents.training import Training as Training
from consilience.api import Result as Result
from consilience.api import collaborate as collaborate
from consilience.base.errors import ConsilienceError as ConsilienceError
from consilience.core.wire import Wire as Wire
from consilience.export.folder import load_model as load_model
from consilience.methods.alone import Alone as Alone
from consilience.methods.consensus import Consensus as Consensus
from consilience.methods.fd import FD as FD
from consilience.methods.fedavg import FedAvg as FedAvg
from consilience.methods.feddf import FedDF as FedDF
from consilience.methods.feddyn import FedDyn as FedDyn
from consilience.methods.fedprox import FedProx as FedProx
from consilience.methods.learning.separate import OneSet as OneSet
from consilience.methods.learning.separate import Revisit as Revisit
from consilience.methods.learning.separate import Sequential as Sequential
from consilience.methods.listening.sparse import Sparse as Sparse
from consilience.methods.scaffold import Scaffold as Scaffold
from consilience.methods.trust.entropy import Entropy as Entropy
from consilience.methods.trust.remembering import Gate as Gate
from consilience.methods.trust.simple import Cosine as Cosine
from consilience.methods.trust.simple import Gaussian as Gaussian
from consilience.methods.trust.simple import Paper as Paper
from consilience.methods.trust.simple import Uniform as Uniform
from consilience.methods.trust.stratified import Stratified as Stratified
from consilience.privacy.options import Privacy as Privacy
from consilience.runtime.callbacks import Callback as Callback
from consilience.runtime.run import Run as Run
from consilience.runtime.run import load_run as load_run

__version__: str
