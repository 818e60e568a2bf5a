"""Names of pandas, Hugging Face, FiftyOne, Lance, zarr, Deep Lake 4 and others, with the code to write instead.

The tables are used only when a name is missing; a test runs every line.
"""

from __future__ import annotations

_DATASET = """
add_columns,apply,pipe,transform  ds.map(lambda row: {"twice": row["age"] * 2})
add_faiss_index         ds.create_index("vec", "hnsw")
add_sample,insert       ds.append({"age": 3, "kind": "cat", "title": "ann", "vec": [0, 0]})
add_samples             ds.extend([{"age": 3, "kind": "cat", "title": "ann", "vec": [0, 0]}])
agg,aggregate           ds.groupby("kind").agg({"age": "mean"})
alter_columns,astype,cast  ds.cast_column("age", "float32")
array_keys              ds.column_names
arrays                  ds.tensors
as_numpy_iterator,to_iterable_dataset  ds.batches(32)
assign                  ds["twice"] = ds["age"].numpy() * 2
at,iat                  ds["age"][3]
attrs                   ds.info["source"] = "camera 7"
bounds                  ds["age"].min(), ds["age"].max()
cardinality,count,count_rows,height,size  len(ds)
checkout_version        ds.checkout("main")
class_encode_column     ds.add_column("label", ds["title"].tolist(), htype="class_label")
cleanup_old_versions    lakebed.gc(ds.path)
clone                   ds.copy("mem://copy-of-it")
collect,to_table        ds.to_arrow()
concat,repeat           lakebed.concat([ds, ds])
corr                    ds.to_pandas().corr(numeric_only=True)
count_values,value_counts  ds["kind"].value_counts()
create_array,create_dataset  ds.create_tensor("new", dtype="float32")
create_branch           ds.checkout("side", create=True)
create_scalar_index     ds.update_statistics()
cumsum                  ds["age"].numpy().cumsum()
current_branch          ds.branch
delete_samples          ds.remove(ds["age"] > 5)
description             ds.info["description"] = "what it is"
difference              ds.diff()
distinct                ds["kind"].unique()
drop_columns            del ds["vec"]
drop_null,drop_nulls    ds.dropna()
duplicated              ds.drop_duplicates("age")
element_spec,get_field_schema  ds.schema
empty                   ds.is_empty
equals                  ds.to_arrow().equals(ds.to_arrow())
estimated_size,memory_usage  ds.size_approx()
eval                    ds.query("SELECT age + 1 AS older")
exists                  ds[ds["age"].notna()]
explode                 ds.query("SELECT title, kind FROM (SELECT * GROUP BY kind) UNGROUP BY SPLIT")
fill_null,fillna        ds["age"][ds["age"].isna()] = 0
first                   ds[0]
flatten                 ds.column_names  # groups are names with a slash
get_nearest_examples    ds.query("SELECT * ORDER BY COSINE_SIMILARITY(vec, ?) DESC LIMIT 5", parameters=[[1, 0]])
glimpse                 ds.describe()
hist                    ds["age"].value_counts()
history                 ds.log()
iloc,row                ds[3]
isin                    ds[ds["age"].isin([3, 4])]
isna,isnull             ds["age"].isna()
iter_rows,itertuples    for row in ds.rows(): row["age"]
iter_samples            for row in ds: row["age"]
iterrows                for i, row in enumerate(ds): row["age"]
last                    ds[-1]
lazy                    ds.query("SELECT age, title WHERE age > 3")
loc,match               ds[ds["age"] > 3]
mask                    ds["age"][ds["age"] > 3] = 0
match_tags              ds[ds["kind"].isin(["cat"])]
max                     ds["age"].max()
mean                    ds["age"].mean()
median                  ds["age"].to_pandas().median()
melt                    ds.to_pandas().melt()
merge_insert,upsert     ds[ds["title"] == "ann"] = {"age": 4}  # the connector's append_dedup does it by keys
metadata                ds.info
min                     ds["age"].min()
n_unique,nunique        ds["kind"].nunique()
name,uri                ds.path
nearest                 ds.query("SELECT * ORDER BY COSINE_SIMILARITY(vec, ?) DESC LIMIT 5", parameters=[[1, 0]])
nlargest,top_k          ds.sort("age", descending=True)[:5]
notna                   ds["age"].notna()
nbytes                  ds.size_approx()
nrows                   ds.num_rows
nsmallest               ds.sort("age")[:5]
optimize                ds.rechunk()
persistent              ds.path  # a dataset is stored unless its path begins with mem://
pivot                   ds.to_pandas().pivot(columns="kind", values="age")
pivot_table             ds.groupby("kind").mean("age")
prefetch                ds.dataloader().batch(32)  # reads ahead by itself
push                    ds.copy("mem://copy-of-it")  # or a bucket: s3://...
push_to_hub             ds.copy("mem://copy-of-it")  # or lakebed.export_to("huggingface", ds, folder)
quantile                ds["age"].to_pandas().quantile(0.9)
rank                    ds["age"].to_pandas().rank()
refresh                 lakebed.load(ds.path)
rename_field            ds.rename_tensor("age", "years")
replace                 ds["age"][ds["age"] == 3] = 4
require_group           ds.create_group("part", exist_ok=True)
reset_format            ds.to_arrow()  # each way to read has a call of its own
reset_index             ds.to_pandas()  # rows have their numbers, and no other index
resize                  ds.pop(ds[10:])
revert,rollback         ds.discard()
rolling                 ds["age"].to_pandas().rolling(2).mean()
save                    ds.commit("what was done")
scan                    ds.batches(1024)
search                  ds.query("SELECT * ORDER BY BM25_SIMILARITY(title, ?) DESC LIMIT 5", parameters=["ann"])
set_field               ds["age"] = list(range(len(ds)))
set_index               ds.sort("title")
set_transform,with_transform  ds.dataloader().transform(lambda row: row)
shift                   ds["age"].to_pandas().shift()
show                    print(ds.to_pandas())
sort_by,sort_index      ds.sort("age")
split                   ds.train_test_split(0.2, seed=1)
std                     ds["age"].std()
store                   ds.storage
sum                     ds["age"].sum()
T                       ds.to_pandas().T
tag                     ds.create_tag("v1")
tag_samples             ds.save_split("train", ds[:10])
to_batches              ds.to_arrow().to_batches()
to_excel                ds.to_pandas().to_excel("rows.xlsx")
to_feather              ds.to_pandas().to_feather("rows.feather")
to_string               repr(ds.to_pandas())
to_tf_dataset           ds.tensorflow()
tree                    ds.summary()
values                  ds["age"].numpy()
version                 ds.commit_id
versions                ds.commits
view                    ds[:10]
width                   len(ds.column_names)
with_columns            ds["twice"] = lambda row: row["age"] * 2
with_row_index          ds.to_duckdb(row_ids=True)
"""

_TENSOR = """
abs                     abs(ds["age"].numpy())
all                     (ds["age"] > 3).all()
any                     (ds["age"] > 3).any()
apply,map               ds["age"] = lambda row: row["age"] * 2
argmax,idxmax           ds["age"].numpy().argmax()
argmin,idxmin           ds["age"].numpy().argmin()
argsort                 ds["age"].numpy().argsort(axis=0)
attrs                   ds["age"].info["unit"] = "years"
cat                     ds["kind"].info.class_names
chunks                  ds.size_approx()
clip                    ds["age"].numpy().clip(0, 5)
create_index            ds.create_index("vec", "hnsw")
count                   len(ds["age"])
cumsum                  ds["age"].numpy().cumsum()
describe                ds.describe()["age"]
diff                    ds["age"].to_pandas().diff()
drop_duplicates,duplicated  ds.drop_duplicates("age")
dropna                  ds.dropna("age")
dt                      ds.query("SELECT EXTRACT(YEAR FROM born) AS year")
endswith                ds.filter("title LIKE '%n'")
eq                      ds["age"] == 3
fillna                  ds["age"][ds["age"].isna()] = 0
flatten,ravel           ds["age"].numpy().ravel()
ge                      ds["age"] >= 3
gt                      ds["age"] > 3
head                    ds["age"][:5]
hist,plot               ds["age"].value_counts()
iloc                    ds["age"][3]
is_in                   ds["age"].isin([3, 4])
is_null                 ds["age"].isna()
item                    ds["age"][3].numpy().item()
items                   enumerate(ds["age"].tolist())
le                      ds["age"] <= 3
len                     [len(text) for text in ds["title"].tolist()]
loc                     ds["age"][ds["age"] > 3]
lower                   ds["title"] = lambda row: row["title"].lower()
lt                      ds["age"] < 3
median                  ds["age"].to_pandas().median()
mode                    next(iter(ds["age"].value_counts()))
n_unique                ds["age"].nunique()
name                    ds["age"].key
ne                      ds["age"] != 3
nlargest                ds.sort("age", descending=True)[:5]
prod                    ds["age"].numpy().prod()
quantile                ds["age"].to_pandas().quantile(0.9)
rename                  ds.rename_tensor("age", "years")
replace                 ds["age"][ds["age"] == 3] = 4
reshape                 ds["age"].numpy().reshape(-1)
round                   ds["age"].numpy().round()
sample                  ds.sample(3)
shift                   ds["age"].to_pandas().shift()
sort,sort_values        ds.sort("age")
split,tokens            ds.query("SELECT SPLIT(title, ' ') AS words")
startswith              ds.filter("title LIKE 'a%'")
str                     ds.filter("CONTAINS(title, 'a*')")
T                       ds["vec"].numpy().T
tail                    ds["age"][-5:]
to_frame                ds.to_pandas(["age"])
to_list                 ds["age"].tolist()
upper                   ds["title"] = lambda row: row["title"].upper()
var                     ds["age"].std() ** 2
"""

_RESULT = """
arrow                   result.to_arrow()
append,commit,extend,map,save,save_view  result.materialize("mem://stored-rows", overwrite=True)
df,fetchdf              result.to_pandas()
dataloader,pytorch      result.materialize("mem://stored-rows", overwrite=True).dataloader()
fetchall                list(result.rows())
fetchone                result[0].to_dict()
iloc                    result[0]
iterrows                for row in result.rows(): row["age"]
loc                     result[result["age"] > 3]
pl                      result.to_polars()
show                    print(result)
value_counts            result["age"].value_counts()
values                  result["age"].numpy()
"""

_MODULE = """
ClassLabel              ds.create_tensor("label", htype="class_label", class_names=["cat", "dog"])
DataFrame,array         lakebed.from_dict({"a": [1, 2]})
DatasetDict             ds.splits
Features,Value,schemas,zeros  ds.create_tensor("new", dtype="float32")
Image,types             ds.create_tensor("photo", htype="image", sample_compression="jpeg")
Sequence                ds.create_tensor("words", htype="sequence[text]")
asarray                 ds["age"].numpy()
create,create_dataset   lakebed.empty("mem://a-new-one")
export                  lakebed.export_to("csv", ds[["age", "title"]], "rows")
from_csv                lakebed.read_csv("rows.csv")
from_numpy              lakebed.from_dict({"a": numpy.zeros(3)})
from_parquet            lakebed.read_parquet("rows.parquet")
interleave_datasets     lakebed.concat([ds, ds]).shuffle(seed=1)
launch_app              ds.plot()
load_from_disk,open_dataset,open_group  lakebed.load(ds.path)
merge                   ds.join(ds[["title"]], on="title")
open_read_only          lakebed.load(ds.path, read_only=True)
read_excel              lakebed.from_pandas(pandas.read_excel("rows.xlsx"))
read_sql                lakebed.from_rows([{"a": 1}])  # or Airbyte, with the destination of this package
save                    ds.commit("what was done")
write_dataset           lakebed.from_arrow("mem://of-a-table", ds.to_arrow())
zoo                     lakebed.ingest_huggingface
"""

TABLES = {"Dataset": _DATASET, "Tensor": _TENSOR, "Result": _RESULT, "lakebed": _MODULE}
"""Kind of object -> lines with names and the code to write."""


def answers(kind: str) -> dict[str, str]:
    """Return the missing names of a kind of object with the code to write: {name: code}."""
    found: dict[str, str] = {}
    for line in TABLES.get(kind, "").split("\n"):
        names, _, code = line.partition(" ")
        found |= dict.fromkeys(names.split(","), code.lstrip())
    found.pop("", None)
    return found


def answered(kind: str, name: str) -> str | None:
    """Return a sentence about a missing name; None for an unknown name."""
    found = answers(kind).get(name)
    return None if found is None else f"{_SPELT[kind]}.{name} is not here: write {found}"


_SPELT = {"Dataset": "ds", "Tensor": "ds[...]", "Result": "result", "lakebed": "lakebed"}
