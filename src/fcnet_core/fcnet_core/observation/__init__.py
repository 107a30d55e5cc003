"""What policies see and do: signals, terms, the interface of a policy, and the builder of its observations."""

from fcnet_core.observation.builder import Known as Known
from fcnet_core.observation.builder import ObservationBuilder as ObservationBuilder
from fcnet_core.observation.builder import Signals as Signals
from fcnet_core.observation.interface import Commands as Commands
from fcnet_core.observation.interface import Input as Input
from fcnet_core.observation.interface import JointTargets as JointTargets
from fcnet_core.observation.interface import PolicyInterface as PolicyInterface
from fcnet_core.observation.interface import VectorAction as VectorAction
from fcnet_core.observation.interface import vector_interface as vector_interface
from fcnet_core.observation.interface import velocity_interface as velocity_interface
from fcnet_core.observation.sensors import SensorErrors as SensorErrors
from fcnet_core.observation.sensors import SensorModel as SensorModel
from fcnet_core.observation.signals import ARRAYS as ARRAYS
from fcnet_core.observation.signals import LABEL as LABEL
from fcnet_core.observation.signals import LAYOUT as LAYOUT
from fcnet_core.observation.signals import PARTS as PARTS
from fcnet_core.observation.signals import ROBOT_SIGNALS as ROBOT_SIGNALS
from fcnet_core.observation.signals import SCALARS as SCALARS
from fcnet_core.observation.signals import SIZE as SIZE
from fcnet_core.observation.signals import PolicyStep as PolicyStep
from fcnet_core.observation.signals import RobotState as RobotState
from fcnet_core.observation.signals import SensorReading as SensorReading
from fcnet_core.observation.signals import TrunkPose as TrunkPose
from fcnet_core.observation.signals import finite_observation as finite_observation
