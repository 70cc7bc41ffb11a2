"""What every table is made with: the one metadata, and the type of keys."""

from sqlalchemy import BigInteger, Integer, MetaData

metadata = MetaData()
KEY = BigInteger().with_variant(Integer, "sqlite")
