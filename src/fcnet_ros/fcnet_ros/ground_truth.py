"""Messages of the ground truth that only a simulation has: odom with its transform, and the terrain."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from builtin_interfaces.msg import Time
from geometry_msgs.msg import Point, Quaternion, TransformStamped, Vector3
from nav_msgs.msg import Odometry
from rclpy.node import Node
from sensor_msgs.msg import PointCloud2, PointField

from fcnet_core.arrays import Array
from fcnet_core.errors import MessageError
from fcnet_core.names import BASE_FRAME, SECOND, WORLD_FRAME
from fcnet_core.observation import TrunkPose
from fcnet_ros.topics import ODOM, TF

TF_PERIOD = SECOND // 50  # [ns] between two transforms, which RViz and Foxglove interpolate
# Points of `terrain`: little-endian floats x, y, z.
FLOAT, POINT = np.dtype("<f4"), 12  # bytes of a point
FIELDS = [PointField(name=name, offset=4 * k, datatype=PointField.FLOAT32, count=1) for k, name in enumerate("xyz")]
MAX_POINTS = 20_000  # of `terrain`


def fill_quaternion(quaternion: Quaternion, xyzw: Array) -> None:
    """Set x, y, z, w from values (4,) in this order."""
    quaternion.x, quaternion.y, quaternion.z, quaternion.w = xyzw.tolist()


def _fill_vector(vector: Vector3 | Point, values: Array) -> None:
    vector.x, vector.y, vector.z = values.tolist()


class OdomPublisher:
    """Publishes odom of a simulated robot, and its transform on tf if ROS has the message type (a distribution)."""

    def __init__(self, node: Node) -> None:
        self._publisher = ODOM.publisher(node)
        self._transforms = TF.publisher(node) if TF else None
        self._transformed = 0  # stamp [ns] of the last transform
        self._odom = Odometry(child_frame_id=BASE_FRAME)
        self._odom.header.frame_id = WORLD_FRAME

    def publish(self, trunk: TrunkPose, stamp: int) -> None:
        """Publish the pose and velocity of the trunk at `stamp` [ns]."""
        second, nanosecond = divmod(stamp, SECOND)
        self._odom.header.stamp = Time(sec=second, nanosec=nanosecond)
        pose, motion = self._odom.pose.pose, self._odom.twist.twist
        _fill_vector(pose.position, trunk.position)
        fill_quaternion(pose.orientation, trunk.orientation)
        _fill_vector(motion.linear, trunk.linear_velocity)
        _fill_vector(motion.angular, trunk.angular_velocity)
        self._publisher.publish(self._odom)
        if TF and self._transforms and not 0 <= stamp - self._transformed < TF_PERIOD:
            self._transformed = stamp
            transform = TransformStamped(header=self._odom.header, child_frame_id=BASE_FRAME)
            _fill_vector(transform.transform.translation, trunk.position)
            transform.transform.rotation = pose.orientation
            self._transforms.publish(TF.kind(transforms=[transform]))


@dataclass(frozen=True)
class GroundPatch:
    """Heights (rows, columns) [m] of the ground at every `step` [m]: rows along y from `y`, columns along x from `x`.

    A message on `terrain` has them as an organised point cloud in the world frame, which RViz and Foxglove show.
    """

    x: float
    y: float
    step: float
    heights: Array

    def message(self, stamp: Time) -> PointCloud2:
        """Return the point cloud."""
        rows, columns = self.heights.shape
        grid = np.meshgrid(self.x + self.step * np.arange(columns), self.y + self.step * np.arange(rows))
        points = np.stack([*grid, self.heights], axis=-1).astype(FLOAT)
        cloud = PointCloud2(height=rows, width=columns, fields=FIELDS, point_step=POINT, row_step=POINT * columns)
        cloud.header.stamp, cloud.header.frame_id, cloud.is_dense = stamp, WORLD_FRAME, True
        cloud.data.frombytes(points.tobytes())
        return cloud

    @classmethod
    def read(cls, cloud: PointCloud2) -> GroundPatch:
        """Read a message. Raises MessageError unless the points are such a grid."""
        rows, columns, sizes = cloud.height, cloud.width, (cloud.point_step, cloud.row_step)
        if cloud.fields != FIELDS or cloud.is_bigendian or sizes != (POINT, POINT * columns):
            raise MessageError("terrain is ignored: its points must be x, y, z as little-endian float32")
        if min(rows, columns) < 2 or rows * columns > MAX_POINTS or len(cloud.data) != POINT * rows * columns:
            raise MessageError(
                f"terrain is ignored: it must have at least 2 rows and columns and at most {MAX_POINTS} points"
            )
        points = np.frombuffer(cloud.data, FLOAT).reshape(rows, columns, len(FIELDS)).astype(np.float64)
        (x, y, _), step = points[0, 0], points[0, 1, 0] - points[0, 0, 0]
        grid = np.meshgrid(x + step * np.arange(columns), y + step * np.arange(rows))
        if not (step > 0.0 and np.isfinite(points).all() and np.allclose(points[..., 0], grid[0], atol=0.1 * step)
                and np.allclose(points[..., 1], grid[1], atol=0.1 * step)):  # fmt: skip
            raise MessageError("terrain is ignored: its points must be finite and lie on a grid")
        return cls(float(x), float(y), float(step), points[..., 2])
