"""Render the conda recipe for every system and Python that it is for; nothing is fetched or built.

    python scripts/recipe.py

Needs py-rattler-build (dependency group `release`), which is rattler-build as a library.
"""

from __future__ import annotations

from pathlib import Path

from rattler_build import JinjaConfig, PlatformConfig, RenderConfig, Stage0Recipe, VariantConfig

FOLDER = Path(__file__).resolve().parent.parent / "recipe"
PLATFORMS = ("linux-64", "linux-aarch64", "osx-64", "osx-arm64")
PACKAGES = ["destination-deeplake", "lakebed"]


def main() -> None:
    """Print one line for each package; fail if one does not render, or if any is missing."""
    recipe = Stage0Recipe.from_file(FOLDER / "recipe.yaml")
    for platform in PLATFORMS:
        target = PlatformConfig(target_platform=platform)
        variants = VariantConfig.from_file_with_context(
            FOLDER / "variants.yaml", JinjaConfig(platform=target)
        )
        rendered = recipe.render(variants, RenderConfig(platform=target))
        made = sorted(f"{one.recipe.package.name} {one.recipe.package.version}" for one in rendered)
        pythons = variants.get_values("python") or []
        print(f"{platform}: {', '.join(dict.fromkeys(made))} for {len(pythons)} versions of Python")
        if sorted({name.partition(" ")[0] for name in made}) != PACKAGES or len(made) != 2 * len(pythons):
            raise SystemExit(f"{platform}: rendered {made}")


if __name__ == "__main__":
    main()
